#include "tests/differential/operations/oracle.h"

#include <algorithm>
#include <cmath>

#include "plugins/conformance/execution.h"
#include "plugins/conformance/variants.h"

namespace differential {
namespace {

using plugins::conformance::Execution;
using plugins::host::Operation;

// A fraction of a subnormal number, such as the terms of a mean, has few digits.
constexpr double kTinyTolerance = 0x1p-6;

// Makes every element a little larger or smaller, at random. Numbers that are subnormal in `dtype`
// get at least kTinyTolerance.
void disturb(const rt_tensor_desc& tensor, rt_dtype dtype, double tolerance, Random& random,
             Bytes& data) {
  if (!is_floating(tensor.dtype)) return;
  std::vector<double> values = decode(tensor.dtype, data);
  for (double& v : values) {
    const bool tiny = std::abs(v) < smallest_normal_number(dtype);
    const double share = tiny ? std::max(tolerance, kTinyTolerance) : tolerance;
    v *= random.one_in(2) ? 1 + share : 1 - share;
  }
  data = encode(tensor.dtype, values);
}

std::vector<std::vector<double>> decode_all(const std::vector<rt_tensor_desc>& tensors,
                                            const std::vector<Bytes>& data) {
  std::vector<std::vector<double>> values;
  for (size_t j = 0; j < data.size(); ++j) values.push_back(decode(tensors[j].dtype, data[j]));
  return values;
}

}  // namespace

Oracle::Oracle(plugins::host::Device& reference, const Recipe& recipe, const Case& c,
               const Operands& operands)
    : reference_(reference),
      family_(family_of(recipe.operation)),
      dtype_(c.operation.outputs.empty() ? recipe.dtype : c.operation.outputs[0].dtype),
      case_(c),
      operands_(operands) {
  if (family_.comparison != Comparison::kOwnType) {
    operands_.inputs = widened(c.operation, operands.inputs);
    case_.operation = widened(c.operation);
    if (c.forward) {
      operands_.forward_inputs = widened(*c.forward, operands.forward_inputs);
      case_.forward = widened(*c.forward);
    }
  }
  expected_ = run(operands_);
  not_finite_ = has_finite_operands() ? NotFinite::kSame : family_.not_finite;
  if (family_.terms) {
    std::vector<std::vector<double>> inputs;
    for (const Bytes& data : operands_.inputs) {
      inputs.push_back(decode(RT_FLOAT64, data));
      // Only finite elements are compared, so only their terms count.
      for (double& v : inputs.back()) v = std::isfinite(v) ? v : 0.0;
    }
    const double terms = family_.terms(Sizes(recipe.numbers), inputs);
    terms_ = std::isfinite(terms) ? terms : 0;
  }
}

// Post-operations are left out, because none makes an error much larger.
const std::vector<double>& Oracle::magnitudes(size_t j) {
  if (!magnitudes_.empty()) return magnitudes_[j];
  Case plain = case_;
  plugins::conformance::trim_post_operations(plain, 0);
  std::vector<Bytes> inputs(
      operands_.inputs.begin(),
      operands_.inputs.begin() + static_cast<std::ptrdiff_t>(plain.operation.inputs.size()));
  for (Bytes& data : inputs) {
    std::vector<double> values = decode(RT_FLOAT64, data);
    for (double& v : values) v = std::abs(v);
    data = encode(RT_FLOAT64, values);
  }
  magnitudes_ = decode_all(plain.operation.outputs,
                           Execution(reference_, plain.operation, nullptr).run(inputs));
  return magnitudes_[j];
}

void Oracle::forgive_range_of(const Oracle& earlier) {
  for (size_t i = 0; i < expected_[0].size(); ++i) {
    const double before = earlier.expected_[0][i];
    const bool overflows = std::isfinite(before) && std::abs(before) >= largest_number(dtype_);
    const bool may_be_nan = std::isinf(before) && not_finite_ != NotFinite::kSame;
    const bool may_be_zero = before != 0 && std::abs(before) < smallest_normal_number(dtype_);
    if (overflows || may_be_nan || (may_be_zero && !std::isfinite(expected_[0][i]))) {
      expected_[0][i] = largest_number(dtype_);
    }
  }
}

bool Oracle::has_finite_operands() const {
  const auto finite = [](const rt_tensor_desc& tensor, const Bytes& data) {
    if (!is_floating(tensor.dtype)) return true;
    const std::vector<double> values = decode(tensor.dtype, data);
    return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
  };
  for (size_t i = 0; i < operands_.inputs.size(); ++i) {
    if (!finite(case_.operation.inputs[i], operands_.inputs[i])) return false;
  }
  for (size_t i = 0; i < operands_.forward_inputs.size(); ++i) {
    if (!finite(case_.forward->inputs[i], operands_.forward_inputs[i])) return false;
  }
  return true;
}

std::vector<std::vector<double>> Oracle::run(const Operands& operands) const {
  std::vector<Bytes> outputs;
  if (case_.forward) {
    Execution forward(reference_, *case_.forward, nullptr);
    forward.run(operands.forward_inputs);
    outputs = Execution(reference_, case_.operation, &forward).run(operands.inputs);
  } else {
    outputs = Execution(reference_, case_.operation, nullptr).run(operands.inputs);
  }
  return decode_all(case_.operation.outputs, outputs);
}

const std::vector<double>& Oracle::disturbed(size_t j, double tolerance) {
  const auto found = disturbed_.find(tolerance);
  if (found != disturbed_.end()) return found->second[j];
  Operands operands = operands_;
  Random random(1);
  for (size_t i = 0; i < operands.inputs.size(); ++i) {
    // An error of one last bit in it excuses no difference.
    const rt::sdk::OperandDefinition* const row = family_.definition().input(i);
    if (row != nullptr && row->is(rt::sdk::OperandDefinition::kExact)) continue;
    disturb(case_.operation.inputs[i], dtype_, tolerance, random, operands.inputs[i]);
  }
  for (size_t i = 0; family_.chooses_results && i < operands.forward_inputs.size(); ++i)
    disturb(case_.forward->inputs[i], dtype_, tolerance, random, operands.forward_inputs[i]);
  return disturbed_.emplace(tolerance, run(operands)).first->second[j];
}

Allowance Oracle::allowance(size_t j, double tolerance) {
  Allowance allowance{.tolerance = tolerance,
                      .exact = family_.comparison != Comparison::kNorm,
                      .not_finite = not_finite_,
                      .terms = terms_,
                      .mixes_all = family_.not_finite == NotFinite::kMaySpread,
                      .disturbed = [this, j, tolerance]() -> const std::vector<double>& {
                        return disturbed(j, tolerance);
                      }};
  if (family_.sums_products)
    allowance.magnitudes = [this, j]() -> const std::vector<double>& { return magnitudes(j); };
  return allowance;
}

}  // namespace differential
