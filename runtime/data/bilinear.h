// Images at another size.
#ifndef RUNTIME_DATA_BILINEAR_H_
#define RUNTIME_DATA_BILINEAR_H_

#include <cstdint>
#include <vector>

namespace runtime::data {

struct ImageSize {
  int64_t height = 0, width = 0;
  bool operator==(const ImageSize&) const = default;
};

// Bilinear interpolation with half-pixel centres and no smoothing (PyTorch's interpolate with
// align_corners = False). One thread may apply it while another does.
class Bilinear {
 public:
  // `shorter` 0: the image is stretched to `to`. Else its shorter side is scaled to that, the other
  // in proportion, and `to`, which is not larger, cut from the centre (torchvision's Resize and
  // CenterCrop).
  Bilinear(ImageSize from, ImageSize to, int64_t shorter);

  // From [height, width, channels] of Number, uint8_t or float, to float.
  template <class Number>
  void apply(const Number* image, int64_t channels, float* out) const;

 private:
  // An output position is between the input positions `low` and `high`: (1 - weight) * x[low] +
  // weight * x[high].
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
