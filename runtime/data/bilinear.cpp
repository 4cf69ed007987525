// Computes the two source rows and columns of each output pixel, and mixes them.
#include "runtime/data/bilinear.h"

#include <algorithm>
#include <cmath>

namespace runtime::data {

Bilinear::Bilinear(ImageSize from, ImageSize to, int64_t shorter) : width_in_(from.width) {
  ImageSize scaled = to;
  if (shorter > 0) {
    const int64_t side = std::min(from.height, from.width);
    scaled = {shorter * from.height / side, shorter * from.width / side};
  }
  rows_ = make_taps(from.height, scaled.height, to.height);
  columns_ = make_taps(from.width, scaled.width, to.width);
}

// Makes taps for the middle `to` of `scaled` positions; half a pixel is rounded to even, as
// torchvision does.
std::vector<Bilinear::Tap> Bilinear::make_taps(int64_t from, int64_t scaled, int64_t to) {
  std::vector<Tap> taps(static_cast<std::size_t>(to));
  const double scale = static_cast<double>(from) / static_cast<double>(scaled);
  const auto first = std::nearbyint(static_cast<double>(scaled - to) / 2);
  for (std::size_t i = 0; i < taps.size(); ++i) {
    const double position = std::max(0.0, (first + static_cast<double>(i) + 0.5) * scale - 0.5);
    Tap& tap = taps[i];
    tap.low = std::min(static_cast<int64_t>(position), from - 1);
    tap.high = std::min(tap.low + 1, from - 1);
    tap.weight = static_cast<float>(position - static_cast<double>(tap.low));
  }
  return taps;
}

template <class Number>
void Bilinear::apply(const Number* image, int64_t channels, float* out) const {
  for (const Tap& row : rows_) {
    const Number* low = image + row.low * width_in_ * channels;
    const Number* high = image + row.high * width_in_ * channels;
    const auto between = [](Number a, Number b, float weight) {
      return static_cast<float>(a) + weight * (static_cast<float>(b) - static_cast<float>(a));
    };
    for (const Tap& column : columns_) {
      const int64_t left = column.low * channels, right = column.high * channels;
      for (int64_t c = 0; c < channels; ++c) {
        const float upper = between(low[left + c], low[right + c], column.weight);
        const float lower = between(high[left + c], high[right + c], column.weight);
        *out++ = upper + row.weight * (lower - upper);
      }
    }
  }
}

template void Bilinear::apply(const uint8_t*, int64_t, float*) const;
template void Bilinear::apply(const float*, int64_t, float*) const;

}  // namespace runtime::data
