// Estimates by perturbed operands and by absolute values how much of a difference is rounding.
#include "tools/verify/rounding.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "rt/operations.h"
#include "rt/sdk/definitions.h"
#include "runtime/exec/encode.h"
#include "runtime/train/weights.h"

namespace runtime::verify {

namespace {

using plugins::host::Operation;
using train::numbers_of;

// Rounding error of a sum, in units of rounding of the sum of all magnitudes. The error of a sum
// that is computed in blocks grows much more slowly than the number of its terms.
constexpr double kLastBits = 8;

// Normalisations compute a mean of an exact input, and must do so without losing digits
// (plugins/operations.md), so that no rounding of it is allowed for.
bool is_exact_input(const Operation& operation, size_t input) {
  const rt::sdk::Definition* const definition = rt::sdk::find_definition(operation.name);
  const auto* const row = definition != nullptr ? definition->input(input) : nullptr;
  return row != nullptr && row->is(rt::sdk::OperandDefinition::kExact);
}

// Returns whether outputs are sums of products of operands. The operation on the absolute values of
// its operands is then the sum of the magnitudes of the terms.
bool is_sum(const Operation& operation) {
  using graph::Kind;
  switch (kind_of(operation)) {
    case Kind::kAdds:
    case Kind::kProduct:
      return true;
    case Kind::kSum:
      return attribute<int64_t>(operation, RT_ATTR_FUNCTION) != RT_REDUCE_MAX;
    case Kind::kCopies:
    case Kind::kMoves:
    case Kind::kConverts:
    case Kind::kElementwise:
    case Kind::kAttention:
    case Kind::kChooses:
    case Kind::kNormalisesRows:
    case Kind::kNormalisesChannels:
    case Kind::kRandom:
    case Kind::kLoss:
    case Kind::kGradientScale:
    case Kind::kOptimizer:
    case Kind::kDecay:
    case Kind::kUpdate:
    case Kind::kOpaque:
      return false;
  }
  return false;
}

template <class Change>
void change_numbers(data::HostTensor& tensor, Change&& change) {
  if (tensor.dtype != RT_FLOAT64) return;
  std::vector<double> numbers = numbers_of(tensor);
  for (double& number : numbers) number = change(number);
  tensor.bytes = exec::encode(numbers, RT_FLOAT64);
}

// Whether the operation chooses between numbers that its forward operation computes, the results of
// a product. Rounding them may change the choice.
bool chooses_anew(const IsolatedOperation& isolated) {
  return isolated.forward && kind_of(*isolated.forward) == graph::Kind::kProduct;
}

// Makes each element a little larger or smaller at random, in the same way every time.
IsolatedOperation disturbed(IsolatedOperation isolated, double tolerance) {
  std::mt19937 random(1);
  const auto disturb = [&](double number) {
    return number * ((random() & 1) != 0 ? 1 + tolerance : 1 - tolerance);
  };
  for (size_t i = 0; i < isolated.inputs.size(); ++i) {
    if (!is_exact_input(isolated.operation, i)) change_numbers(isolated.inputs[i], disturb);
  }
  if (chooses_anew(isolated)) {
    for (data::HostTensor& tensor : isolated.forward_inputs) change_numbers(tensor, disturb);
  }
  return isolated;
}

void leave_out_function(Operation& operation) {
  for (plugins::host::Attribute& attribute : operation.attributes) {
    if (attribute.name == RT_ATTR_FUNCTION) attribute.value = int64_t{0};
  }
}

// Returns the operation that adds up the magnitudes of the terms. Activations are left out, because
// they increase a magnitude at most a little.
IsolatedOperation magnitudes(IsolatedOperation isolated) {
  Operation& operation = isolated.operation;
  if (kind_of(operation) == graph::Kind::kAdds) operation.name = RT_OP_ADD;
  if (kind_of(operation) == graph::Kind::kProduct) {
    leave_out_function(operation);
    if (isolated.forward) leave_out_function(*isolated.forward);
  }
  std::vector<plugins::host::PostOp> kept;
  for (plugins::host::PostOp post : operation.post_ops) {
    const bool linear = post.kind == RT_POST_BIAS || post.kind == RT_POST_RESIDUAL_ADD;
    if (linear || post.kind == RT_POST_STORE) kept.push_back(post);
    if (linear || post.operand < 0) continue;
    operation.inputs.erase(operation.inputs.begin() + post.operand);
    isolated.inputs.erase(isolated.inputs.begin() + post.operand);
    for (plugins::host::PostOp& other : operation.post_ops) {
      if (other.operand > post.operand) --other.operand;
    }
  }
  // The operands of the post-operations that are kept follow the operation's own inputs, in their
  // order.
  const auto has_operand = [](const plugins::host::PostOp& post) { return post.operand >= 0; };
  auto next = static_cast<int32_t>(operation.inputs.size()) -
              static_cast<int32_t>(std::count_if(kept.begin(), kept.end(), has_operand));
  for (plugins::host::PostOp& post : kept) {
    if (has_operand(post)) post.operand = next++;
  }
  operation.post_ops = std::move(kept);
  for (data::HostTensor& tensor : isolated.inputs)
    change_numbers(tensor, [](double number) { return std::abs(number); });
  return isolated;
}

void raise(Rounding& rounding, const Rounding& estimate) {
  rounding.norm = std::max(rounding.norm, estimate.norm);
  rounding.element = std::max(rounding.element, estimate.element);
}

// Returns the 2-norm and the largest element of `factor` times the difference of two tensors; a
// null `b` counts as zeros. Elements that are not finite are left out, because they are compared by
// kind.
Rounding size_of(const data::HostTensor& a, const data::HostTensor* b, double factor) {
  const std::vector<double> x = numbers_of(a);
  const std::vector<double> y = b != nullptr ? numbers_of(*b) : std::vector<double>(x.size());
  Rounding size;
  for (size_t i = 0; i < x.size(); ++i) {
    const double d = factor * std::abs(x[i] - y[i]);
    if (!std::isfinite(d)) continue;
    size.norm += d * d;
    size.element = std::max(size.element, d);
  }
  size.norm = std::sqrt(size.norm);
  return size;
}

// Returns the size of the terms gamma dy / deviation, from which dx subtracts their mean and their
// projection on x. In a row (or a channel) of few elements, almost nothing may be left of them.
Rounding normalisation_terms(const IsolatedOperation& isolated, double factor) {
  const bool by_row = kind_of(isolated.operation) == graph::Kind::kNormalisesRows;
  const std::vector<double> dy = numbers_of(isolated.inputs[0]), x = numbers_of(isolated.inputs[1]),
                            gamma = numbers_of(isolated.inputs[2]);
  const size_t width = std::max<size_t>(gamma.size(), 1),
               groups = by_row ? x.size() / width : width;
  const auto group_of = [&](size_t i) { return by_row ? i / width : i % width; };
  const double count =
      static_cast<double>(x.size()) / static_cast<double>(std::max<size_t>(groups, 1));
  std::vector<double> mean(groups), variance(groups);
  for (size_t i = 0; i < x.size(); ++i) mean[group_of(i)] += x[i] / count;
  for (size_t i = 0; i < x.size(); ++i) {
    const double d = x[i] - mean[group_of(i)];
    variance[group_of(i)] += d * d / count;
  }
  const double epsilon = attribute<double>(isolated.operation, RT_ATTR_EPSILON).value_or(0);
  Rounding terms;
  for (size_t i = 0; i < x.size(); ++i) {
    const double d =
        factor * std::abs(gamma[i % width] * dy[i]) / std::sqrt(variance[group_of(i)] + epsilon);
    if (!std::isfinite(d)) continue;
    terms.norm += d * d;
    terms.element = std::max(terms.element, d);
  }
  terms.norm = std::sqrt(terms.norm);
  return terms;
}

}  // namespace

std::vector<Rounding> estimate_rounding(const Definition& definition,
                                        const IsolatedOperation& widened,
                                        const HostTensors& expected, double tolerance,
                                        double unit) {
  std::vector<Rounding> rounding(expected.size());
  const HostTensors moved = definition(disturbed(widened, tolerance));
  for (size_t j = 0; j < expected.size(); ++j)
    raise(rounding[j], size_of(moved[j], &expected[j], 1));
  if (is_sum(widened.operation)) {
    const HostTensors sums = definition(magnitudes(widened));
    for (size_t j = 0; j < expected.size(); ++j)
      raise(rounding[j], size_of(sums[j], nullptr, kLastBits * unit));
  }
  const graph::Kind kind = kind_of(widened.operation);
  const bool normalises =
      kind == graph::Kind::kNormalisesRows || kind == graph::Kind::kNormalisesChannels;
  if (normalises && widened.forward)  // from dy, x and gamma, with what that has saved
    raise(rounding[0], normalisation_terms(widened, kLastBits * unit));
  return rounding;
}

}  // namespace runtime::verify
