// One case on one device: every candidate, every in-place pair, twice where determinism is claimed.
#include <algorithm>
#include <cmath>
#include <set>

#include "plugins/conformance/builder.h"
#include "plugins/conformance/execution.h"
#include "rt/operations.h"
#include "rt/sdk/operation.h"

namespace plugins::conformance {
namespace {

using rt::sdk::format;

// Relative to the reference, in the norm of each output; `support.tolerance` may widen the default,
// up to the cap.
struct Tolerance {
  double usual, cap;
};

// A result in 16 bits is the same float32 number, up to the order of its sum, rounded once. Where
// the two numbers lie on both sides of a tie, the roundings differ by one unit in the last place:
// 2^-10 of the number in float16, 2^-7 in bfloat16. That bounds the norm even if all elements do.
// The cap is two such units, for libraries that round between an operation and what they fuse.
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

// Of one output of a case. What is float32 beside operands in 16 bits was not rounded: what the
// device claims is not about that, which has a fixed bound instead.
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

// Operations whose operands may be in a foreign layout; vectors and scalars never are.
bool takes_foreign_layouts(const std::string& name) {
  static const std::set<std::string> names = {RT_OP_MATMUL,
                                              RT_OP_CONV2D,
                                              RT_OP_CONV2D_BACKWARD_DATA,
                                              RT_OP_MAX_POOL2D,
                                              RT_OP_MAX_POOL2D_BACKWARD,
                                              RT_OP_CONV2D_BACKWARD_WEIGHTS,
                                              RT_OP_AVG_POOL2D,
                                              RT_OP_AVG_POOL2D_BACKWARD,
                                              RT_OP_GLOBAL_AVG_POOL,
                                              RT_OP_ACTIVATION,
                                              RT_OP_ACTIVATION_BACKWARD,
                                              RT_OP_GLOBAL_AVG_POOL_BACKWARD,
                                              RT_OP_ADD,
                                              RT_OP_MULTIPLY,
                                              RT_OP_BATCH_NORM,
                                              RT_OP_BATCH_NORM_INFERENCE,
                                              RT_OP_BATCH_NORM_BACKWARD};
  return names.count(name) > 0;
}

host::Operation with_any_layouts(host::Operation operation) {
  const auto open = [](rt_tensor_desc& tensor) {
    if (tensor.rank >= 2) tensor.layout = RT_LAYOUT_ANY;
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

// The operation as it is, then one variant for each candidate that the device lists for it in
// canonical layouts and, where the contract allows foreign ones, in any layout. The inputs say
// canonical throughout.
std::vector<host::Operation> variants(host::Device& device, const host::Operation& operation) {
  std::vector<host::Operation> result = {operation};
  std::vector<rt_candidate> candidates = device.query(operation).candidates;
  if (candidates.empty()) throw Violation("supports the operation but lists no candidate");
  if (takes_foreign_layouts(operation.name)) {
    const host::Support any = device.query(with_any_layouts(operation));
    if (any.level == RT_SUPPORT_REFUSED) {
      throw Violation("supports canonical layouts but refuses when it may choose: " + any.reason);
    }
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

// Keeps the first `fused` post-operations and their operands, which follow the own inputs in order.
void trim_post_operations(Case& c, uint32_t fused) {
  while (c.operation.post_ops.size() > fused) {
    if (c.operation.post_ops.back().operand >= 0) {
      c.operation.inputs.pop_back();
      c.inputs.pop_back();
    }
    c.operation.post_ops.pop_back();
  }
}

std::vector<Bytes> make_inputs(const host::Operation& operation,
                               const std::vector<Values>& values) {
  std::vector<Bytes> data;
  for (size_t i = 0; i < operation.inputs.size(); ++i) {
    data.push_back(make_values(operation.inputs[i], values[i]));
  }
  return data;
}

// Everything that one case has in common over the candidates.
struct Run {
  host::Device& device;
  const Case& c;
  std::vector<Bytes> inputs;
  std::vector<Bytes> expected;
  std::vector<double> allowed;  // for each output
  Result& result;
};

// Sharing memory makes sense only between operands of the same size.
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

void compare(const Run& run, const std::vector<Bytes>& actual, const std::string& where) {
  for (size_t j = 0; j < actual.size(); ++j) {
    const double error =
        relative_error(run.c.operation.outputs[j].dtype, actual[j], run.expected[j]);
    run.result.worst_error = std::max(run.result.worst_error, error);
    if (error <= run.allowed[j]) continue;
    throw Violation(
        format("%s: output %zu differs from the reference by %g in its norm, allowed "
               "are %g",
               where.c_str(), j, error, run.allowed[j]));
  }
}

// Two outputs may share memory with inputs at the same time; each pair alone is tested, and all of
// them together, as optimizers do.
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

void run_variant(const Run& run, const host::Operation& operation, Execution* forward,
                 bool deterministic) {
  Execution execution(run.device, operation, forward);
  const std::string where = describe(operation, execution, run.device);
  const std::vector<Bytes> actual = execution.run(run.inputs);
  compare(run, actual, where);
  const bool claimed = (execution.info().flags & RT_PLAN_DETERMINISTIC) != 0 ||
                       (deterministic && operation.algorithm == 0);
  if (claimed && execution.run(run.inputs) != actual) {
    throw Violation(where + ": claims to be deterministic, but two runs differ");
  }
  for (const InPlace& pair : in_place_pairs(execution)) {
    expect_equal_sizes(run.device, operation, pair);
    const auto [output, input] = *pair.begin();
    compare(run, execution.run(run.inputs, pair),
            where + format(" with output %u in the memory of input %u", output, input));
  }
  ++run.result.candidates;
  if (run.result.detail.find(where) == std::string::npos) {
    run.result.detail += (run.result.detail.empty() ? "" : "; ") + where;
  }
}

std::vector<Bytes> expect_from_reference(host::Device& reference, const Case& c,
                                         const std::vector<Bytes>& inputs) {
  if (!c.forward) return Execution(reference, c.operation, nullptr).run(inputs);
  Execution forward(reference, *c.forward, nullptr);
  forward.run(make_inputs(*c.forward, c.forward_inputs));
  return Execution(reference, c.operation, &forward).run(inputs);
}

void run_all_variants(const Run& run, bool deterministic) {
  if (!run.c.forward) {
    for (const host::Operation& operation : variants(run.device, run.c.operation)) {
      run_variant(run, operation, nullptr, deterministic);
    }
    return;
  }
  for (const host::Operation& forward : variants(run.device, *run.c.forward)) {
    Execution first(run.device, forward, nullptr);
    first.run(make_inputs(*run.c.forward, run.c.forward_inputs));
    host::Operation backward = run.c.operation;
    backward.forward = first.plan();
    for (const host::Operation& operation : variants(run.device, backward)) {
      run_variant(run, operation, &first, deterministic);
    }
  }
}

// Refusing is allowed, except for a mandatory operation without post-operations in the type that
// the plugin must support: float32 if it computes in that, else float64.
bool must_support(const host::Device& device, const Case& c) {
  const uint64_t computed = device.properties().compute_dtypes;
  const rt_dtype first = computed & RT_DTYPE_BIT(RT_FLOAT32) ? RT_FLOAT32 : RT_FLOAT64;
  return c.mandatory && c.operation.post_ops.empty() && c.dtype == first;
}

Result refused(const host::Device& device, const Case& c, const host::Support& support) {
  if (support.reason.empty()) return {Outcome::kFailed, "refuses without a reason", 0, 0.0};
  if (!must_support(device, c)) return {Outcome::kSkipped, support.reason, 0, 0.0};
  return {Outcome::kFailed, "refuses a mandatory operation: " + support.reason, 0, 0.0};
}

Result run_checked(host::Device& device, host::Device& reference, Case c) {
  const host::Support support = device.query(c.operation);
  if (support.level == RT_SUPPORT_REFUSED) return refused(device, c, support);
  if (c.forward) {
    const host::Support forward = device.query(*c.forward);
    if (forward.level == RT_SUPPORT_REFUSED) return refused(device, c, forward);
  }
  if (support.post_ops_fused > c.operation.post_ops.size()) {
    throw Violation("fuses more post-operations than it was asked for");
  }
  trim_post_operations(c, support.post_ops_fused);
  Result result;
  const std::vector<Bytes> inputs = make_inputs(c.operation, c.inputs);
  Run run{device, c, inputs, expect_from_reference(reference, c, inputs), {}, result};
  for (const rt_tensor_desc& output : c.operation.outputs) {
    run.allowed.push_back(allowed_error(c, output, support));
  }
  run_all_variants(run, support.deterministic);
  return result;
}

}  // namespace

Result run_case(host::Device& device, host::Device& reference, const Case& c) {
  try {
    return run_checked(device, reference, c);
  } catch (const std::exception& e) {
    return {Outcome::kFailed, e.what(), 0, 0.0};
  }
}

Summary run_cases(host::Device& device, host::Device& reference, const std::vector<Case>& cases) {
  Summary summary;
  for (const Case& c : cases) {
    const Result result = run_case(device, reference, c);
    summary.candidates += result.candidates;
    if (result.outcome == Outcome::kPassed) ++summary.passed;
    if (result.outcome == Outcome::kSkipped) {
      ++summary.skipped;
      summary.skips.push_back(c.name + ": " + result.detail);
    }
    if (result.outcome == Outcome::kFailed) {
      ++summary.failed;
      summary.failures.push_back(c.name + ": " + result.detail);
    }
  }
  return summary;
}

std::string Summary::text() const {
  std::string result =
      format("%d passed in %d ways, %d skipped, %d failed", passed, candidates, skipped, failed);
  for (const std::string& failure : failures) result += "\nfailed: " + failure;
  for (const std::string& skip : skips) result += "\nskipped: " + skip;
  return result;
}

}  // namespace plugins::conformance
