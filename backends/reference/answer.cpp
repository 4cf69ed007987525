#include "backends/reference/answer.h"

#include <algorithm>
#include <cstring>

#include "rt/sdk/definitions.h"
#include "rt/sdk/post_ops.h"

namespace backends::reference {

using rt::sdk::copy_text;
using rt::sdk::Error;
using rt::sdk::format;
using rt::sdk::Operation;

namespace {

constexpr uint64_t kOnlyAlgorithm = 1;
constexpr char kImplementation[] = "reference";
// Relative, in the norm of an output. It is 0 because other backends are compared with the
// reference.
constexpr double kTolerance = 0.0;

void accept(const Operation& op, uint32_t post_ops_fused, rt_support* support) {
  support->level = RT_SUPPORT_NATIVE;
  support->post_ops_fused = post_ops_fused;
  support->deterministic = 1;
  support->candidate_count = 1;
  if (support->candidates == nullptr || support->candidate_capacity == 0) return;
  rt::sdk::write_element(support->candidates, 0, candidate_of(op));
}

}  // namespace

rt_candidate candidate_of(const Operation& op) {
  rt_candidate candidate{};
  candidate.algorithm = kOnlyAlgorithm;
  for (uint32_t i = 0; i < op.input_count(); ++i) {
    candidate.input_bytes[i] = tensor_bytes(op.input(i));
  }
  for (uint32_t i = 0; i < op.output_count(); ++i) {
    candidate.output_bytes[i] = tensor_bytes(op.output(i));
  }
  copy_text(candidate.implementation, kImplementation);
  return candidate;
}

uint64_t tensor_bytes(const rt_tensor_desc& tensor) {
  return static_cast<uint64_t>(rt::sdk::element_count(tensor)) * rt::sdk::dtype_bytes(tensor.dtype);
}

void answer_query(const rt_op_desc* desc, rt_support* support) {
  const Operation op(desc);
  rt::sdk::check_size(support);
  support->level = RT_SUPPORT_REFUSED;
  support->post_ops_fused = 0;
  support->deterministic = 0;
  support->tolerance = kTolerance;
  support->reason_operand = -1;
  support->candidate_count = 0;
  support->reason[0] = '\0';
  try {
    const bool stores = op.is(RT_OP_MATMUL);
    const bool fuses = rt::sdk::has_trait(op.name(), rt::sdk::Definition::kPostOperations);
    const uint32_t fused = fuses ? rt::sdk::fusible_post_ops(op, stores) : 0;
    const rt_op_desc part = rt::sdk::with_post_ops(op, fused);
    make_kernel(Operation(&part));
    accept(op, fused, support);
  } catch (const Refusal& refusal) {
    support->reason_operand = refusal.operand();
    copy_text(support->reason, refusal.what());
  }
}

Planned::Planned(const rt_op_desc* desc, const Planned* forward) {
  const Operation op(desc);
  name_ = desc->name;
  for (uint32_t i = 0; i < op.input_count(); ++i) {
    if (op.input(i).layout == RT_LAYOUT_ANY) op.fail("a plan needs a layout for every operand");
    input_bytes_.push_back(tensor_bytes(op.input(i)));
  }
  for (uint32_t i = 0; i < op.output_count(); ++i) {
    if (op.output(i).layout == RT_LAYOUT_ANY) op.fail("a plan needs a layout for every output");
    output_bytes_.push_back(tensor_bytes(op.output(i)));
  }
  if (desc->algorithm > kOnlyAlgorithm) {
    op.fail(format("algorithm %llu is not one of the candidates (1)",
                   static_cast<unsigned long long>(desc->algorithm)));
  }
  kernel_ = make_kernel(op);
  if (kernel_.reads_saved == 0) return;
  if (forward == nullptr) op.fail("reads what its forward saved; give the forward plan");
  if (forward->kernel_.saved_bytes != kernel_.reads_saved) {
    op.fail(format("expects %llu saved bytes, but the given forward plan (%s) saves %llu",
                   static_cast<unsigned long long>(kernel_.reads_saved), forward->name_.c_str(),
                   static_cast<unsigned long long>(forward->kernel_.saved_bytes)));
  }
}

void Planned::fill_info(rt_plan_info* info) const {
  rt_plan_info value{};
  value.flags = RT_PLAN_DETERMINISTIC;
  value.workspace_bytes = kernel_.workspace_bytes;
  value.saved_bytes = kernel_.saved_bytes;
  std::copy(kernel_.in_place.begin(), kernel_.in_place.end(), value.in_place);
  copy_text(value.implementation, kImplementation);
  rt::sdk::write_output(info, value);
}

void Planned::check_launch(const rt_launch* launch) const {
  rt::sdk::check_input(launch);
  const auto fail = [&](const std::string& message) {
    throw Error(RT_ERROR_INVALID_ARGUMENT, name_ + ": " + message);
  };
  if (launch->input_count != input_bytes_.size() || launch->output_count != output_bytes_.size()) {
    fail(format("launched with %u inputs and %u outputs, the plan has %zu and %zu",
                launch->input_count, launch->output_count, input_bytes_.size(),
                output_bytes_.size()));
  }
  for (uint32_t i = 0; i < launch->input_count; ++i) {
    if (launch->inputs[i] == nullptr && input_bytes_[i] > 0) fail(format("input %u is NULL", i));
  }
  for (uint32_t i = 0; i < launch->output_count; ++i) {
    if (launch->outputs[i] == nullptr && output_bytes_[i] > 0) fail(format("output %u is NULL", i));
  }
  if (launch->workspace == nullptr && kernel_.workspace_bytes > 0) fail("the workspace is NULL");
  if (launch->saved == nullptr && saved_bytes() > 0) fail("the saved buffer is NULL");
}

}  // namespace backends::reference
