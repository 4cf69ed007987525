// Joins the number of samples and a checksum over a few of them.
#include "runtime/data/fingerprint.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "runtime/data/crc32.h"

namespace runtime::data {

namespace {

constexpr int64_t kSamples = 64;

template <typename T>
uint32_t add(uint32_t crc, const std::vector<T>& numbers) {
  return crc32(numbers.data(), numbers.size() * sizeof(T), crc);
}

uint32_t add_input(uint32_t crc, const Dataset& dataset, std::size_t input, int64_t sample) {
  const SampleInput& spec = dataset.spec().inputs[input];
  const auto count = static_cast<std::size_t>(spec.numbers());
  std::vector<float> floats(spec.integers ? 0 : count);
  std::vector<int32_t> integers(spec.integers ? count : 0);
  dataset.read_input({&sample, 1}, input, {floats.data(), integers.data()});
  return add(add(crc, floats), integers);
}

}  // namespace

std::string fingerprint(const Dataset& dataset) {
  const SampleSpec& spec = dataset.spec();
  std::vector<float> features(static_cast<std::size_t>(spec.features()));
  std::vector<float> targets(static_cast<std::size_t>(spec.targets));
  std::vector<int32_t> labels(spec.classes > 0 ? static_cast<std::size_t>(spec.labels) : 0);
  uint32_t crc = 0;
  const int64_t count = std::min(dataset.size(), kSamples);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t sample = i * dataset.size() / count;
    dataset.read_features(sample, features.data());
    if (!labels.empty()) dataset.read_labels(sample, labels.data());
    if (!targets.empty()) dataset.read_targets(sample, targets.data());
    crc = add(add(add(crc, features), labels), targets);
    for (std::size_t input = 0; input < spec.inputs.size(); ++input)
      crc = add_input(crc, dataset, input, sample);
  }
  char text[64];
  std::snprintf(text, sizeof(text), "%lld samples, checksum %08x",
                static_cast<long long>(dataset.size()), crc);
  return text;
}

}  // namespace runtime::data
