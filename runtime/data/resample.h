// Scaling of a part of an image, with smoothing.
#ifndef RUNTIME_DATA_RESAMPLE_H_
#define RUNTIME_DATA_RESAMPLE_H_

#include <cstdint>
#include <vector>

#include "runtime/data/bilinear.h"
#include "runtime/data/region.h"

namespace runtime::data {

// A rectangle in pixels, whose sides may lie within pixels.
struct Box {
  double top = 0, left = 0, height = 0, width = 0;
};

// Returns a region that is moved by so many pixels, of an image that is `shrunk` times smaller.
inline Box box_of(const Region& region, int64_t shrunk = 1, int64_t top = 0, int64_t left = 0) {
  const auto scaled = [&](int64_t pixels) {
    return static_cast<double>(pixels) / static_cast<double>(shrunk);
  };
  return {scaled(region.top) - static_cast<double>(top),
          scaled(region.left) - static_cast<double>(left), scaled(region.size.height),
          scaled(region.size.width)};
}

// A triangle filter that grows wider as the image shrinks, so that no pixel is left out; where the
// image grows, this is bilinear interpolation with half-pixel centres. Pixels outside of the box
// count nothing. Equivalent to: a crop and PyTorch's interpolate with mode = "bilinear" and
// antialias = True. Immutable; several threads may apply one object.
class Resampler {
 public:
  // `box` lies inside an image of the size `from`.
  Resampler(ImageSize from, Box box, ImageSize to);

  // Scales an image of [height, width, channels], whose Number is uint8_t or float, to floats in
  // `out`.
  template <class Number>
  void apply(const Number* image, int64_t channels, float* out) const;

 private:
  // An output position is the sum of the input positions first, first + 1, ... times `weights`.
  struct Tap {
    int64_t first = 0, count = 0;
    const float* weights = nullptr;
  };
  // All positions of one axis.
  struct Axis {
    Axis(double begin, double size, int64_t limit, int64_t to);
    int64_t first, last;  // the input positions that are read, without `last`
    std::vector<float> weights;
    std::vector<Tap> taps;
  };
  template <int kChannels>
  void sum_columns(const float* row, float* out) const;
  void sum_columns(const float* row, int64_t channels, float* out) const;

  int64_t width_in_;
  Axis rows_, columns_;
};

}  // namespace runtime::data

#endif  // RUNTIME_DATA_RESAMPLE_H_
