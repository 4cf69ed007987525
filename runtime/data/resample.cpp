// Computes the weights of a triangle filter along both axes, and applies them.
#include "runtime/data/resample.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace runtime::data {

// The filter of an output position reaches one output pixel, and at least one input pixel, to both
// sides of the position's centre.
Resampler::Axis::Axis(double begin, double size, int64_t limit, int64_t to)
    : first(std::clamp<int64_t>(static_cast<int64_t>(std::floor(begin)), 0, limit - 1)),
      last(std::clamp<int64_t>(static_cast<int64_t>(std::ceil(begin + size)), first + 1, limit)) {
  const double scale = size / static_cast<double>(to), reach = std::max(scale, 1.0);
  const auto most = static_cast<std::size_t>(std::ceil(2 * reach)) + 1;
  weights.reserve(most * static_cast<std::size_t>(to));
  taps.reserve(static_cast<std::size_t>(to));
  for (int64_t i = 0; i < to; ++i) {
    const double centre = begin + (static_cast<double>(i) + 0.5) * scale;
    const auto low = static_cast<int64_t>(std::floor(centre - reach + 0.5));
    const auto high = static_cast<int64_t>(std::ceil(centre + reach - 0.5));
    Tap tap{std::clamp(low, first, last - 1), 0, weights.data() + weights.size()};
    tap.count = std::clamp(high, tap.first + 1, last) - tap.first;
    const std::size_t own = weights.size();
    double sum = 0;
    for (int64_t k = tap.first; k < tap.first + tap.count; ++k) {
      const double distance = std::abs(static_cast<double>(k) + 0.5 - centre) / reach;
      weights.push_back(static_cast<float>(std::max(0.0, 1 - distance)));
      sum += static_cast<double>(weights.back());
    }
    if (sum == 0) weights[own] = static_cast<float>(sum = 1);
    for (std::size_t k = own; k < weights.size(); ++k)
      weights[k] = static_cast<float>(static_cast<double>(weights[k]) / sum);
    taps.push_back(tap);
  }
}

Resampler::Resampler(ImageSize from, Box box, ImageSize to)
    : width_in_(from.width),
      rows_(box.top, box.height, from.height, to.height),
      columns_(box.left, box.width, from.width, to.width) {}

// Rows are summed before columns, because this is done for many neighbouring numbers at a time.
template <class Number>
void Resampler::apply(const Number* image, int64_t channels, float* out) const {
  const int64_t begin = columns_.first * channels, end = columns_.last * channels;
  std::vector<float> sum(static_cast<std::size_t>(end));
  float* const row = sum.data();
  for (const Tap& tap : rows_.taps) {
    std::fill(row + begin, row + end, 0.0f);
    for (int64_t k = 0; k < tap.count; ++k) {
      const Number* from = image + (tap.first + k) * width_in_ * channels;
      const float weight = tap.weights[k];
      for (int64_t i = begin; i < end; ++i) row[i] += weight * static_cast<float>(from[i]);
    }
    if (channels == 3)
      sum_columns<3>(row, out);
    else
      sum_columns(row, channels, out);
    out += static_cast<int64_t>(columns_.taps.size()) * channels;
  }
}

template <int kChannels>
void Resampler::sum_columns(const float* row, float* out) const {
  for (const Tap& tap : columns_.taps) {
    const float* from = row + tap.first * kChannels;
    std::array<float, kChannels> sum = {};
    for (int64_t k = 0; k < tap.count; ++k, from += kChannels) {
      for (int c = 0; c < kChannels; ++c) sum[c] += tap.weights[k] * from[c];
    }
    out = std::copy(sum.begin(), sum.end(), out);
  }
}

// The same for any number of channels.
void Resampler::sum_columns(const float* row, int64_t channels, float* out) const {
  for (const Tap& tap : columns_.taps) {
    const float* from = row + tap.first * channels;
    std::fill_n(out, channels, 0.0f);
    for (int64_t k = 0; k < tap.count; ++k, from += channels) {
      for (int64_t c = 0; c < channels; ++c) out[c] += tap.weights[k] * from[c];
    }
    out += channels;
  }
}

template void Resampler::apply(const uint8_t*, int64_t, float*) const;
template void Resampler::apply(const float*, int64_t, float*) const;

}  // namespace runtime::data
