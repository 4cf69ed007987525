// Runs one case on one device: every candidate, every in-place pair, and a second time if the
// device claims determinism.
#include <algorithm>
#include <cmath>
#include <set>

#include "plugins/conformance/builder.h"
#include "plugins/conformance/variants.h"
#include "rt/operations.h"
#include "rt/sdk/operation.h"

namespace plugins::conformance {
namespace {

using rt::sdk::format;

std::vector<Bytes> make_inputs(const host::Operation& operation,
                               const std::vector<Values>& values) {
  std::vector<Bytes> data;
  for (size_t i = 0; i < operation.inputs.size(); ++i) {
    data.push_back(make_values(operation.inputs[i], values[i]));
  }
  return data;
}

// What all candidates of one case share.
struct Run {
  host::Device& device;
  const Case& c;
  std::vector<Bytes> inputs;
  std::vector<Bytes> expected;
  std::vector<double> allowed;  // one for each output
  Result& result;
};

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

// A plugin may refuse any operation but one: a mandatory operation without post-operations, in the
// type that the plugin must support. That is float32 if the plugin computes in it, else float64.
bool must_support(const host::Device& device, const Case& c) {
  const uint64_t computed = device.properties().compute_dtypes;
  const rt_dtype first = computed & RT_DTYPE_BIT(RT_FLOAT32) ? RT_FLOAT32 : RT_FLOAT64;
  return c.mandatory && c.operation.post_ops.empty() && c.dtype == first;
}

Result refused(const host::Device& device, const Case& c, const host::Support& support,
               Mandatory mandatory) {
  if (support.reason.empty()) return {Outcome::kFailed, "refuses without a reason", 0, 0.0};
  if (mandatory == Mandatory::kSkipped || !must_support(device, c))
    return {Outcome::kSkipped, support.reason, 0, 0.0};
  return {Outcome::kFailed, "refuses a mandatory operation: " + support.reason, 0, 0.0};
}

Result run_checked(host::Device& device, host::Device& reference, Case c, Mandatory mandatory) {
  const host::Support support = device.query(c.operation);
  if (support.level == RT_SUPPORT_REFUSED) return refused(device, c, support, mandatory);
  if (c.forward) {
    const host::Support forward = device.query(*c.forward);
    if (forward.level == RT_SUPPORT_REFUSED) return refused(device, c, forward, mandatory);
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

Result run_case(host::Device& device, host::Device& reference, const Case& c, Mandatory mandatory) {
  try {
    return run_checked(device, reference, c, mandatory);
  } catch (const std::exception& e) {
    return {Outcome::kFailed, e.what(), 0, 0.0};
  }
}

Summary run_cases(host::Device& device, host::Device& reference, const std::vector<Case>& cases,
                  Mandatory mandatory) {
  Summary summary;
  for (const Case& c : cases) {
    const Result result = run_case(device, reference, c, mandatory);
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
