// Compares loss, batch, gradients and values of two steps by norm, and writes and reads recorded
// steps.
#include "tools/verify/compare_steps.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <numeric>
#include <set>

#include "runtime/error.h"
#include "runtime/exec/encode.h"
#include "runtime/graph/graph.h"
#include "runtime/train/weights.h"
#include "tools/verify/element.h"

namespace runtime::verify {

namespace {

constexpr size_t kMostSamples = 3;
// The least norm that a parameter's gradient is compared with, as a fraction of the norm of the
// whole gradient. A gradient whose terms cancel (that of a bias before a normalisation is zero but
// for rounding) would else differ by a large ratio.
constexpr double kGradientFloor = 1e-3;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double norm(const std::vector<double>& numbers) {
  return std::sqrt(std::inner_product(numbers.begin(), numbers.end(), numbers.begin(), 0.0));
}

// The distance of two numbers. Equal infinities and NaN on both sides (16-bit gradients) do not
// differ.
double distance(double actual, double expected) {
  if (actual == expected || (std::isnan(actual) && std::isnan(expected))) return 0;
  const double d = std::abs(actual - expected);
  return std::isfinite(d) ? d : kInfinity;
}

std::vector<Difference::Sample> largest(const std::vector<double>& actual,
                                        const std::vector<double>& expected,
                                        const std::vector<int64_t>& dims) {
  std::vector<size_t> order(actual.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const size_t count = std::min(kMostSamples, order.size());
  const auto further = [&](size_t a, size_t b) {
    return distance(actual[a], expected[a]) > distance(actual[b], expected[b]);
  };
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    further);
  std::vector<Difference::Sample> samples;
  for (size_t i = 0; i < count && distance(actual[order[i]], expected[order[i]]) > 0; ++i)
    samples.push_back({index_of(order[i], dims), actual[order[i]], expected[order[i]]});
  return samples;
}

// `floor`: the norm of the difference is divided by at least this.
Difference difference(const TracedValue& value, const data::HostTensor& expected, double floor) {
  Difference d{value.layer, value.operation, value.name, value.tensor.dims, kInfinity, {}};
  if (value.tensor.dims != expected.dims) return d;
  const std::vector<double> a = train::numbers_of(value.tensor), b = train::numbers_of(expected);
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += distance(a[i], b[i]) * distance(a[i], b[i]);
  const double scale = std::max(norm(b), floor);
  // If the expected values are all zero or some are infinite, any difference counts as infinite.
  d.relative = sum == 0                            ? 0
               : scale > 0 && std::isfinite(scale) ? std::sqrt(sum) / scale
                                                   : kInfinity;
  d.samples = largest(a, b, d.dims);
  return d;
}

std::string prefix(int64_t step) {
  char text[32];
  std::snprintf(text, sizeof(text), "step/%03lld/", static_cast<long long>(step));
  return text;
}

data::HostTensor scalar(double value) {
  return {RT_FLOAT64, {1}, exec::encode({value}, RT_FLOAT64)};
}

// The norm of the whole gradient: of all values that are gradients of parameters.
double gradient_norm(const RecordedStep& expected) {
  double sum = 0;
  for (const auto& [name, tensor] : expected.values) {
    if (!name.ends_with(".gradient")) continue;
    const double n = norm(train::numbers_of(tensor));
    sum += n * n;
  }
  return std::sqrt(sum);
}

}  // namespace

double sum_of(const data::Batch& batch) {
  double sum = 0;
  for (const auto* numbers : {&batch.features, &batch.targets})
    sum = std::accumulate(numbers->begin(), numbers->end(), sum);
  for (size_t i = 0; i < batch.labels.size(); ++i)
    sum += static_cast<double>(batch.labels[i]) * static_cast<double>(i % 1021);
  for (const data::InputNumbers& input : batch.inputs) {
    sum = std::accumulate(input.floats.begin(), input.floats.end(), sum);
    for (size_t i = 0; i < input.integers.size(); ++i)
      sum += static_cast<double>(input.integers[i]) * static_cast<double>(i % 1021);
  }
  return sum;
}

RecordedStep record_step(StepTrace& trace, const data::Batch& batch, double learning_rate,
                         int64_t step) {
  RecordedStep recorded;
  recorded.state = trace.state();
  recorded.batch = sum_of(batch);
  recorded.loss = trace
                      .step(batch, learning_rate, step,
                            [&](TracedValue& value) {
                              recorded.values[value.name] = std::move(value.tensor);
                              return false;
                            })
                      .loss;
  return recorded;
}

StepComparison compare_step(StepTrace& trace, const RecordedStep& expected,
                            const data::Batch& batch, double learning_rate, int64_t step,
                            const CompareOptions& options) {
  if (sum_of(batch) != expected.batch) {
    throw DataError(options.source + ": step " + std::to_string(step + 1) +
                    " saw another batch (its numbers add up to " + std::to_string(expected.batch) +
                    ", here to " + std::to_string(sum_of(batch)) +
                    "); use the same data set, debug.seed and batch size");
  }
  trace.set_state(expected.state, options.source);
  const double floor = kGradientFloor * gradient_norm(expected);
  StepComparison result;
  result.step = step;
  result.worst.relative = -1;
  std::set<std::string> visited;
  const auto visit = [&](TracedValue& value) {
    const auto it = expected.values.find(value.name);
    if (it == expected.values.end()) {
      ++result.left_out;
      return false;
    }
    visited.insert(value.name);
    const Difference d = difference(value, it->second, value.parameter_gradient ? floor : 0);
    ++result.compared;
    if (d.relative > options.tolerance && !result.first) result.first = d;
    if (d.relative > result.worst.relative) result.worst = d;
    const bool floating =
        train::is_floating(value.tensor.dtype) && train::is_floating(it->second.dtype);
    if (!floating || value.tensor.dims != it->second.dims ||
        !(options.isolate || value.parameter_gradient))
      return false;
    value.tensor.bytes = train::converted(it->second, value.tensor.dtype);
    return true;
  };
  const TracedStep traced = trace.step(batch, learning_rate, step, visit);
  result.loss = traced.loss;
  result.expected_loss = expected.loss;
  result.left_out += traced.left_out;
  for (const auto& [name, tensor] : expected.values) {
    if (!visited.contains(name)) result.only_recorded.push_back(name);
  }
  if (result.compared > 0) return result;
  throw DataError(options.source +
                  ": no value of the step has the same name on both sides; "
                  "both must come from the same configuration");
}

void add_step(data::TensorFile& file, int64_t step, RecordedStep&& recorded) {
  const std::string at = prefix(step);
  for (auto& [name, tensor] : recorded.state)
    file.tensors[at + "state/" + name] = std::move(tensor);
  for (auto& [name, tensor] : recorded.values)
    file.tensors[at + "value/" + name] = std::move(tensor);
  file.tensors[at + "loss"] = scalar(recorded.loss);
  file.tensors[at + "batch"] = scalar(recorded.batch);
}

RecordedStep take_step(data::TensorFile& file, int64_t step, const std::string& path) {
  const std::string at = prefix(step);
  RecordedStep recorded;
  for (auto& [name, tensor] : file.tensors) {
    if (name.starts_with(at + "state/")) {
      recorded.state[name.substr(at.size() + 6)] = std::move(tensor);
    } else if (name.starts_with(at + "value/")) {
      recorded.values[name.substr(at.size() + 6)] = std::move(tensor);
    }
  }
  for (const auto& [name, number] :
       {std::pair{"loss", &recorded.loss}, {"batch", &recorded.batch}}) {
    const auto it = file.tensors.find(at + name);
    if (it == file.tensors.end() || it->second.dtype != RT_FLOAT64 ||
        it->second.bytes.size() != 8) {
      throw DataError(path + " has no float64 number '" + at + name +
                      "'; expected a file that `runtime verify --record` has written");
    }
    std::memcpy(number, it->second.bytes.data(), sizeof(double));
  }
  return recorded;
}

int64_t count_steps(const data::TensorFile& file) {
  int64_t steps = 0;
  while (file.tensors.contains(prefix(steps) + "loss")) ++steps;
  return steps;
}

}  // namespace runtime::verify
