// What a validation reports of its metrics.
#ifndef RUNTIME_TRAIN_METRICS_VALUES_H_
#define RUNTIME_TRAIN_METRICS_VALUES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace runtime::train {

// A number with the name that validation.metrics gives it.
struct NamedValue {
  std::string name;
  double value = 0;  // NaN: it is not defined for these samples
};

// By label, then by predicted class: the number of samples, or of tokens in a language model.
using ConfusionMatrix = std::vector<std::vector<int64_t>>;

// The results of validation.metrics, besides loss and accuracy.
struct MetricValues {
  std::vector<NamedValue> numbers;  // in the order of the configuration
  ConfusionMatrix confusion;        // empty: not asked for

  // The function returns the value of this name; nullptr: it was not computed.
  const double* find(const std::string& name) const {
    for (const NamedValue& number : numbers) {
      if (number.name == name) return &number.value;
    }
    return nullptr;
  }
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_METRICS_VALUES_H_
