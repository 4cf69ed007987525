// Asks a device for all candidates of an operation, and widens the tolerance as far as the contract
// lets it.
#include "plugins/conformance/variants.h"

#include <algorithm>
#include <set>

#include "plugins/conformance/builder.h"
#include "rt/sdk/foreign_layout.h"
#include "rt/sdk/operation.h"

namespace plugins::conformance {
namespace {

using rt::sdk::format;

// Relative errors, in the norm of each output. `usual` is the default; `support.tolerance` may
// raise it up to `cap`.
struct Tolerance {
  double usual, cap;
};

// A result in 16 bits is the float32 result, exact up to the order of its sum, rounded once. If a
// device's float32 result and that of the reference lie on both sides of a tie, the rounded results
// differ by one unit in the last place: 2^-10 of the number in float16, 2^-7 in bfloat16. This also
// bounds the norm if all elements differ so. The cap is two such units, for libraries that round
// between an operation and a fused post-operation.
Tolerance tolerance_of(rt_dtype dtype) {
  switch (dtype) {
    case RT_FLOAT64:
      return {1e-12, 1e-6};
    case RT_FLOAT16:
      return {0x1p-10, 0x1p-9};
    case RT_BFLOAT16:
      return {0x1p-7, 0x1p-6};
    default:
      return {1e-5, 1e-3};
  }
}

host::Operation with_any_layouts(host::Operation operation) {
  const auto open = [&](rt_tensor_desc& tensor) {
    if (rt::sdk::takes_foreign_layout(operation.name, tensor.rank)) tensor.layout = RT_LAYOUT_ANY;
  };
  std::for_each(operation.inputs.begin(), operation.inputs.end(), open);
  std::for_each(operation.outputs.begin(), operation.outputs.end(), open);
  return operation;
}

host::Operation with_candidate(host::Operation operation, const rt_candidate& candidate) {
  for (size_t i = 0; i < operation.inputs.size(); ++i) {
    operation.inputs[i].layout = candidate.input_layouts[i];
  }
  for (size_t i = 0; i < operation.outputs.size(); ++i) {
    operation.outputs[i].layout = candidate.output_layouts[i];
  }
  operation.algorithm = candidate.algorithm;
  return operation;
}

}  // namespace

double allowed_error(const Case& c, const rt_tensor_desc& output, const host::Support& support) {
  const bool narrow = is_sixteen_bit(output.dtype);
  if (is_sixteen_bit(c.dtype) && !narrow) return 1e-4;
  const Tolerance t = tolerance_of(narrow ? output.dtype : c.dtype);
  if (support.tolerance > t.cap) {
    throw Violation(
        format("claims a tolerance of %g, at most %g is accepted", support.tolerance, t.cap));
  }
  return std::max(support.tolerance, t.usual);
}

std::vector<host::Operation> variants(host::Device& device, const host::Operation& operation) {
  std::vector<host::Operation> result = {operation};
  std::vector<rt_candidate> candidates = device.query(operation).candidates;
  if (candidates.empty()) throw Violation("supports the operation but lists no candidate");
  const host::Support any = device.query(with_any_layouts(operation));
  if (any.level == RT_SUPPORT_REFUSED) {
    throw Violation("supports canonical layouts but refuses when it may choose: " + any.reason);
  }
  // Candidates in other layouts may fuse fewer post-operations than `operation` has.
  if (any.post_ops_fused >= operation.post_ops.size()) {
    candidates.insert(candidates.end(), any.candidates.begin(), any.candidates.end());
  }
  std::set<std::vector<uint64_t>> seen;
  for (const rt_candidate& c : candidates) {
    if (c.algorithm == 0) throw Violation("lists a candidate with algorithm 0");
    std::vector<uint64_t> key(c.input_layouts, c.input_layouts + RT_MAX_INPUTS);
    key.insert(key.end(), c.output_layouts, c.output_layouts + RT_MAX_OUTPUTS);
    key.push_back(c.algorithm);
    if (seen.insert(key).second) result.push_back(with_candidate(operation, c));
  }
  return result;
}

void trim_post_operations(Case& c, uint32_t fused) {
  while (c.operation.post_ops.size() > fused) {
    if (c.operation.post_ops.back().operand >= 0) {
      c.operation.inputs.pop_back();
      c.inputs.pop_back();
    }
    if (c.operation.post_ops.back().kind == RT_POST_STORE) c.operation.outputs.pop_back();
    c.operation.post_ops.pop_back();
  }
}

void expect_equal_sizes(host::Device& device, const host::Operation& operation,
                        const InPlace& pairs) {
  for (const auto& [output, input] : pairs) {
    const uint64_t out = device.layout_bytes(operation.outputs[output]);
    const uint64_t in = device.layout_bytes(operation.inputs[input]);
    if (out == in) continue;
    throw Violation(format("offers output %u (%llu bytes) in the memory of input %u (%llu bytes)",
                           output, static_cast<unsigned long long>(out), input,
                           static_cast<unsigned long long>(in)));
  }
}

std::vector<InPlace> in_place_pairs(const Execution& execution) {
  std::vector<InPlace> pairs;
  InPlace together;
  for (uint32_t j = 0; j < execution.operation().outputs.size(); ++j) {
    for (uint32_t i = 0; i < execution.operation().inputs.size(); ++i) {
      if ((execution.info().in_place[j] >> i & 1) == 0) continue;
      pairs.push_back({{j, i}});
      const bool taken = std::any_of(together.begin(), together.end(),
                                     [&](const auto& pair) { return pair.second == i; });
      if (!taken) together.emplace(j, i);
    }
  }
  if (together.size() > 1) pairs.push_back(together);
  return pairs;
}

std::string describe(const host::Operation& operation, const Execution& execution,
                     host::Device& device) {
  std::string text = std::string(execution.info().implementation) + " (algorithm " +
                     std::to_string(operation.algorithm);
  const auto add = [&](const rt_tensor_desc& tensor) {
    if (tensor.layout != RT_LAYOUT_CANONICAL) text += ", " + device.layout_name(tensor);
  };
  for (const rt_tensor_desc& tensor : operation.inputs) add(tensor);
  for (const rt_tensor_desc& tensor : operation.outputs) add(tensor);
  return text + ")";
}

}  // namespace plugins::conformance
