// Runs the definition in float64, and compares results with bounds for rounding.
#include "tools/verify/judge.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "plugins/host/error.h"
#include "rt/operations.h"
#include "rt/sdk/definitions.h"
#include "rt/sdk/operation.h"
#include "runtime/error.h"
#include "runtime/train/weights.h"
#include "tools/verify/element.h"
#include "tools/verify/rounding.h"

namespace runtime::verify {

namespace {

using plugins::host::Operation;
using rt::sdk::is_sixteen_bit;
using train::numbers_of;

double largest_number(rt_dtype dtype) {
  if (dtype == RT_FLOAT64) return std::numeric_limits<double>::max();
  if (dtype == RT_FLOAT16) return 65504;
  return dtype == RT_BFLOAT16 ? 0x1.FEp127 : std::numeric_limits<float>::max();
}

double smallest_normal_number(rt_dtype dtype) {
  if (dtype == RT_FLOAT64) return std::numeric_limits<double>::min();
  return dtype == RT_FLOAT16 ? 0x1p-14 : std::numeric_limits<float>::min();
}

// Operations that only move numbers or choose among them.
bool is_exact(const Operation& operation) {
  return rt::sdk::has_trait(operation.name, rt::sdk::Definition::kExactResult) &&
         operation.post_ops.empty();
}

void widen(Operation& operation, HostTensors& tensors) {
  for (auto* list : {&operation.inputs, &operation.outputs}) {
    for (rt_tensor_desc& tensor : *list) {
      if (train::is_floating(tensor.dtype)) tensor.dtype = RT_FLOAT64;
    }
  }
  for (data::HostTensor& tensor : tensors) {
    if (!train::is_floating(tensor.dtype) || tensor.dtype == RT_FLOAT64) continue;
    tensor.bytes = train::converted(tensor, RT_FLOAT64);
    tensor.dtype = RT_FLOAT64;
  }
}

// Returns the operation in canonical layouts with its floating-point operands in float64. A
// conversion keeps its types, because it is defined between them.
IsolatedOperation widened(const IsolatedOperation& isolated) {
  IsolatedOperation wide = in_canonical_layouts(isolated);
  wide.in_place.clear();
  if (kind_of(wide.operation) == graph::Kind::kConverts) return wide;
  widen(wide.operation, wide.inputs);
  if (wide.forward) widen(*wide.forward, wide.forward_inputs);
  return wide;
}

// A backward operation assumes that its own shapes are also those of the data that its forward
// operation has saved. So the incoming gradient must have the shape of the forward operation's
// output, and the outgoing gradient the shape of the forward operation's input.
// The gradient of weights reads that input itself.
bool belong_together(const Operation& forward, const Operation& backward) {
  const bool weights = backward.name.ends_with("_weights");
  const size_t inputs = weights ? 2 : 1;
  if (forward.name + (weights ? "_backward_weights" : "_backward") != backward.name ||
      forward.inputs.size() < inputs || forward.outputs.empty() ||
      backward.inputs.size() < inputs || backward.outputs.empty())
    return false;
  const auto same = [](const rt_tensor_desc& a, const rt_tensor_desc& b) {
    return a.dtype == b.dtype && dims_of(a) == dims_of(b);
  };
  const auto& known = forward.attributes;
  return same(forward.outputs[0], backward.inputs[weights ? 1 : 0]) &&
         same(forward.inputs[0], weights ? backward.inputs[0] : backward.outputs[0]) &&
         (!weights || same(forward.inputs[1], backward.outputs[0])) &&
         std::all_of(backward.attributes.begin(), backward.attributes.end(), [&](const auto& a) {
           return std::find(known.begin(), known.end(), a) != known.end();
         });
}

// Returns the error of one element; it is infinite if one side is finite and the other is not.
double distance(rt_dtype dtype, double actual, double expected, bool finite_operands) {
  // The expected number is so near the largest one of the type that rounding may or may not make it
  // infinite.
  if (std::isfinite(expected) && std::abs(expected) > 0.99 * largest_number(dtype)) return 0;
  const bool both = std::isfinite(actual) && std::isfinite(expected);
  if (both) return std::abs(actual - expected);
  if (!finite_operands) return 0;
  return std::isfinite(actual) == std::isfinite(expected) ? 0
                                                          : std::numeric_limits<double>::infinity();
}

struct Sizes {
  double error = 0, expected = 0;  // in the 2-norm
  double worst = 0, largest = 0;   // of one element
  size_t worst_at = 0;
};

Sizes sizes_of(rt_dtype dtype, const std::vector<double>& actual,
               const std::vector<double>& expected, bool finite_operands) {
  Sizes s;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double d = distance(dtype, actual[i], expected[i], finite_operands);
    s.error += d * d;
    if (d > s.worst) {
      s.worst = d;
      s.worst_at = i;
    }
    if (!std::isfinite(expected[i])) continue;
    s.expected += expected[i] * expected[i];
    s.largest = std::max(s.largest, std::abs(expected[i]));
  }
  s.error = std::sqrt(s.error);
  s.expected = std::sqrt(s.expected);
  return s;
}

}  // namespace

bool has_finite_operands(const IsolatedOperation& isolated) {
  const auto finite = [](const data::HostTensor& tensor) {
    if (!train::is_floating(tensor.dtype)) return true;
    const std::vector<double> numbers = numbers_of(tensor);
    return std::all_of(numbers.begin(), numbers.end(), [](double v) { return std::isfinite(v); });
  };
  return std::all_of(isolated.inputs.begin(), isolated.inputs.end(), finite) &&
         std::all_of(isolated.forward_inputs.begin(), isolated.forward_inputs.end(), finite);
}

Verdict compare(const data::HostTensor& actual, const data::HostTensor& expected,
                const Bound& bound, bool finite_operands) {
  const std::vector<double> a = numbers_of(actual), e = numbers_of(expected);
  const Sizes s = sizes_of(actual.dtype, a, e, finite_operands);
  // A number smaller than the normal ones may have been flushed to zero.
  const bool rounded = train::is_floating(actual.dtype) && bound.tolerance > 0;
  const double flushed = rounded ? 2 * smallest_normal_number(actual.dtype) : 0;
  const double norm = std::max(bound.tolerance * s.expected, bound.rounding) +
                      flushed * std::sqrt(static_cast<double>(e.size()));
  const double element =
      std::max(kElementSlack * bound.tolerance * s.largest, bound.element_rounding) + flushed;
  Verdict v;
  v.single = s.error <= norm && s.worst > element;
  v.right = s.error <= norm && s.worst <= element;
  const double scale = v.single ? s.largest : s.expected;
  v.error = (v.single ? s.worst : s.error) / (scale > 0 ? scale : 1);
  v.bound = (v.single ? element : norm) / (scale > 0 ? scale : 1);
  if (e.empty()) return v;
  v.index = index_of(s.worst_at, expected.dims);
  v.actual = a[s.worst_at];
  v.expected = e[s.worst_at];
  return v;
}

double usual_tolerance(const IsolatedOperation& isolated, size_t output) {
  const Operation& operation = isolated.operation;
  const rt_dtype dtype = operation.outputs[output].dtype;
  if (is_exact(operation) || !train::is_floating(dtype)) return 0;
  // One rounding; if the two sides round a tie differently, it is a whole last bit.
  if (dtype == RT_FLOAT16) return 0x1p-10;
  if (dtype == RT_BFLOAT16) return 0x1p-7;
  if (dtype == RT_FLOAT64) return 1e-12;
  const auto narrow = [](const rt_tensor_desc& t) { return is_sixteen_bit(t.dtype); };
  if (std::any_of(operation.inputs.begin(), operation.inputs.end(), narrow)) return 1e-4;
  return operation.name == RT_OP_SGD ? 1e-6 : 1e-5;  // few roundings for each element, and no sum
}

double tolerance_with_claim(double usual, rt_dtype dtype, double claimed) {
  if (usual == 0) return 0;
  const double most = dtype == RT_FLOAT64    ? 1e-6
                      : dtype == RT_FLOAT16  ? 0x1p-9
                      : dtype == RT_BFLOAT16 ? 0x1p-6
                                             : 1e-3;
  return std::max(usual, std::min(claimed, most));
}

double claimed_tolerance(plugins::host::Device& device, const Operation& operation) {
  const plugins::host::Support support = device.query(operation);
  return support.level == RT_SUPPORT_REFUSED ? 0 : support.tolerance;
}

Verdict compare_all(const HostTensors& actual, const HostTensors& expected,
                    const std::vector<Bound>& bounds, bool finite_operands) {
  Verdict worst;
  worst.error = -1;
  for (size_t j = 0; j < expected.size(); ++j) {
    Verdict v = compare(actual[j], expected[j], bounds[j], finite_operands);
    v.output = static_cast<uint32_t>(j);
    if (v.right ? v.error > worst.error : true) worst = v;
    if (!worst.right) break;
  }
  return worst;
}

void Judge::check(const IsolatedOperation& isolated) const {
  const IsolatedOperation wide = widened(isolated);
  if (wide.forward && !belong_together(*wide.forward, wide.operation)) {
    throw DataError("'" + wide.forward->name + "' is not the forward of '" + wide.operation.name +
                    "' on these operands; expected the operation, shapes and attributes whose "
                    "backward it is");
  }
  for (const Operation* operation : {&wide.operation, wide.forward ? &*wide.forward : nullptr}) {
    if (operation == nullptr) continue;
    std::string reason;
    try {
      const plugins::host::Support support = definition_->query(*operation);
      if (support.level != RT_SUPPORT_REFUSED) continue;
      reason = support.reason;
    } catch (const plugins::host::Error& error) {
      reason = error.what();
    }
    throw DataError("'" + operation->name + "' on these operands is no operation of " +
                    definition_->id() + ": " + reason +
                    "; expected one that plugins/operations.md defines");
  }
  // Only the creation of its plan tells whether a backward operation reads data that its forward
  // operation has saved.
  try {
    plugins::host::Kernel forward;
    Operation operation = wide.operation;
    if (wide.forward) {
      forward = plugins::host::Kernel(definition_, *wide.forward);
      operation.forward = forward.get();
    }
    const plugins::host::Kernel kernel(definition_, operation);
  } catch (const plugins::host::Error& error) {
    throw DataError("'" + wide.operation.name + "' cannot be planned on " + definition_->id() +
                    ": " + error.what() + "; expected a case with all that the operation reads");
  }
}

HostTensors Judge::expect(const IsolatedOperation& isolated) const {
  return run_isolated(definition_, widened(isolated)).outputs;
}

std::vector<Bound> Judge::bounds(const IsolatedOperation& isolated, const HostTensors& expected,
                                 double claimed) const {
  std::vector<Bound> bounds(expected.size());
  double most = 0;
  rt_dtype dtype = RT_FLOAT32;
  for (size_t j = 0; j < expected.size(); ++j) {
    dtype = isolated.operation.outputs[j].dtype;
    bounds[j].tolerance = tolerance_with_claim(usual_tolerance(isolated, j), dtype, claimed);
    most = std::max(most, bounds[j].tolerance);
  }
  if (most == 0) return bounds;
  const double unit = dtype == RT_FLOAT64 ? 0x1p-53 : 0x1p-24;
  const auto definition = [&](const IsolatedOperation& wide) {
    return run_isolated(definition_, wide).outputs;
  };
  const std::vector<Rounding> rounding =
      estimate_rounding(definition, widened(isolated), expected, most, unit);
  for (size_t j = 0; j < expected.size(); ++j) {
    if (bounds[j].tolerance == 0) continue;
    bounds[j].rounding = rounding[j].norm;
    bounds[j].element_rounding = kElementSlack * rounding[j].element;
  }
  return bounds;
}

Verdict Judge::judge(plugins::host::Device& device, const IsolatedOperation& isolated,
                     const HostTensors& actual, const HostTensors& expected) const {
  const bool finite = has_finite_operands(isolated);
  std::vector<Bound> usual(expected.size());
  for (size_t j = 0; j < expected.size(); ++j) usual[j].tolerance = usual_tolerance(isolated, j);
  Verdict first = compare_all(actual, expected, usual, finite);
  if (first.right) return first;
  return compare_all(actual, expected,
                     bounds(isolated, expected, claimed_tolerance(device, isolated.operation)),
                     finite);
}

}  // namespace runtime::verify
