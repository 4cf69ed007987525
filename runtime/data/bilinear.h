// Resizing of images.
#ifndef RUNTIME_DATA_BILINEAR_H_
#define RUNTIME_DATA_BILINEAR_H_

#include <cstdint>
#include <vector>

namespace runtime::data {

// In pixels.
struct ImageSize {
  int64_t height = 0, width = 0;
  bool operator==(const ImageSize&) const = default;
};

// Bilinear interpolation with half-pixel centres and without smoothing. Equivalent to: PyTorch's
// interpolate with align_corners = False. Immutable; several threads may apply one object.
class Bilinear {
 public:
  // If `shorter` is 0, the image is stretched to `to`. Otherwise its shorter side is scaled to
  // `shorter` pixels and the other one in proportion, and `to`, which is not larger, is cut from
  // the centre. Equivalent to: torchvision's Resize and CenterCrop.
  Bilinear(ImageSize from, ImageSize to, int64_t shorter);

  // Resizes an image of [height, width, channels], whose Number is uint8_t or float, to floats in
  // `out`.
  template <class Number>
  void apply(const Number* image, int64_t channels, float* out) const;

 private:
  // An output position lies between the input positions `low` and `high`; its value is (1 - weight)
  // * x[low] + weight * x[high].
  struct Tap {
    int64_t low = 0, high = 0;
    float weight = 0;
  };
  static std::vector<Tap> make_taps(int64_t from, int64_t scaled, int64_t to);

  int64_t width_in_;
  std::vector<Tap> rows_, columns_;
};

}  // namespace runtime::data

#endif  // RUNTIME_DATA_BILINEAR_H_
