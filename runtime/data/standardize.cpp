// Measures means and deviations in two passes, and applies them in float64.
#include "runtime/data/standardize.h"

#include <cmath>

namespace runtime::data {
void make_floats(Part& part) {
  if (!part.bytes.data) return;
  part.floats.resize(part.bytes.size);
  for (std::size_t i = 0; i < part.bytes.size; ++i) {
    part.floats[i] = static_cast<float>(part.bytes.data[i]) / 255.0f;
  }
  part.bytes = {};
}

// Sums are those of differences from the first sample: a number that never changes is its own mean
// to the last bit, and large numbers lose no digits. The deviation takes a second pass, because a
// sum of squares would lose its digits if the mean is large.
FeatureStatistics measure(int64_t features, int64_t samples, const EachSample& each) {
  const auto size = static_cast<std::size_t>(features);
  FeatureStatistics result{std::vector<double>(size), std::vector<double>(size)};
  const auto count = static_cast<double>(samples);
  std::vector<double> first;
  each([&](const double* value) {
    if (first.empty()) first.assign(value, value + size);
    for (std::size_t feature = 0; feature < size; ++feature)
      result.mean[feature] += value[feature] - first[feature];
  });
  for (std::size_t feature = 0; feature < size; ++feature)
    result.mean[feature] = first[feature] + result.mean[feature] / count;
  each([&](const double* value) {
    for (std::size_t feature = 0; feature < size; ++feature) {
      const double difference = value[feature] - result.mean[feature];
      result.deviation[feature] += difference * difference;
    }
  });
  for (double& deviation : result.deviation)
    deviation = deviation > 0 ? std::sqrt(deviation / count) : 1.0;
  return result;
}

FeatureStatistics measure(const Part& part, int64_t samples) {
  const int64_t features = part.features();
  std::vector<double> sample(static_cast<std::size_t>(features));
  return measure(features, samples, [&](const std::function<void(const double*)>& visit) {
    std::size_t next = 0;
    for (int64_t i = 0; i < samples; ++i) {
      for (double& number : sample) number = part.number(next++);
      visit(sample.data());
    }
  });
}

void standardize(Part& part, const FeatureStatistics& statistics) {
  const std::size_t features = statistics.mean.size();
  require_floats(part.doubles.size(), part.title);
  part.floats.resize(part.doubles.empty() ? part.floats.size() : part.doubles.size());
  for (std::size_t i = 0; i < part.floats.size(); ++i) {
    const std::size_t feature = i % features;
    part.floats[i] = static_cast<float>((part.number(i) - statistics.mean[feature]) /
                                        statistics.deviation[feature]);
  }
  part.doubles = {};
}

}  // namespace runtime::data
