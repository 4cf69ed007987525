#include "runtime/data/standardize.h"

#include <cmath>

namespace runtime::data {
namespace {

// Adds term(feature, value) to sums[feature] for each value.
template <class Term>
void sum_features(const EachSample& each, std::vector<double>& sums, const Term& term) {
  each([&](const float* value) {
    for (std::size_t feature = 0; feature < sums.size(); ++feature) {
      sums[feature] += term(feature, static_cast<double>(*value++));
    }
  });
}

}  // namespace

void make_floats(Part& part) {
  if (!part.bytes.data) return;
  part.floats.resize(part.bytes.size);
  for (std::size_t i = 0; i < part.bytes.size; ++i) {
    part.floats[i] = static_cast<float>(part.bytes.data[i]) / 255.0f;
  }
  part.bytes = {};
}

// The deviation takes a second pass, because a sum of squares would lose its digits if the mean is
// large.
FeatureStatistics measure(int64_t features, int64_t samples, const EachSample& each) {
  const auto size = static_cast<std::size_t>(features);
  FeatureStatistics result{std::vector<double>(size), std::vector<double>(size)};
  const auto count = static_cast<double>(samples);
  sum_features(each, result.mean, [](std::size_t, double value) { return value; });
  for (double& mean : result.mean) mean /= count;
  sum_features(each, result.deviation, [&](std::size_t feature, double value) {
    return (value - result.mean[feature]) * (value - result.mean[feature]);
  });
  for (double& deviation : result.deviation) {
    deviation = deviation > 0 ? std::sqrt(deviation / count) : 1.0;
  }
  return result;
}

FeatureStatistics measure(const Part& part, int64_t samples) {
  const int64_t features = part.features();
  return measure(features, samples, [&](const std::function<void(const float*)>& visit) {
    for (int64_t sample = 0; sample < samples; ++sample)
      visit(part.floats.data() + sample * features);
  });
}

void standardize(Part& part, const FeatureStatistics& statistics) {
  const std::size_t features = statistics.mean.size();
  for (std::size_t i = 0; i < part.floats.size(); ++i) {
    const std::size_t feature = i % features;
    part.floats[i] =
        static_cast<float>((static_cast<double>(part.floats[i]) - statistics.mean[feature]) /
                           statistics.deviation[feature]);
  }
}

}  // namespace runtime::data
