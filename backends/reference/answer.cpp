// Fills the structs of query, info and launch for the reference kernels.
#include "backends/reference/answer.h"

#include <algorithm>
#include <cstring>

#include "rt/sdk/answer.h"
#include "rt/sdk/definitions.h"
#include "rt/sdk/post_ops.h"

namespace backends::reference {

using rt::sdk::Error;
using rt::sdk::format;
using rt::sdk::Operation;

namespace {

constexpr char kImplementation[] = "reference";

}  // namespace

// The tolerance stays 0, because other backends are compared with the reference.
void answer_query(const rt_op_desc* desc, rt_support* support) {
  const Operation op(desc);
  rt::sdk::check_size(support);
  rt::sdk::write_refusal(-1, "", support);
  try {
    const bool stores = op.is(RT_OP_MATMUL);
    const bool fuses = rt::sdk::has_trait(op.name(), rt::sdk::Definition::kPostOperations);
    const uint32_t fused = fuses ? rt::sdk::fusible_post_ops(op, stores) : 0;
    const rt_op_desc part = rt::sdk::with_post_ops(op, fused);
    make_kernel(Operation(&part));
    support->level = RT_SUPPORT_NATIVE;
    support->post_ops_fused = fused;
    support->deterministic = 1;
    const rt_candidate candidate = rt::sdk::canonical_candidate(op, kImplementation);
    rt::sdk::list_candidates({&candidate, 1}, support);
  } catch (const Refusal& refusal) {
    rt::sdk::write_refusal(refusal.operand(), refusal.what(), support);
  }
}

Planned::Planned(const rt_op_desc* desc, const Planned* forward) {
  const Operation op(desc);
  name_ = desc->name;
  for (uint32_t i = 0; i < op.input_count(); ++i) {
    if (op.input(i).layout == RT_LAYOUT_ANY) op.fail("a plan needs a layout for every operand");
    input_bytes_.push_back(rt::sdk::tensor_bytes(op.input(i)));
  }
  for (uint32_t i = 0; i < op.output_count(); ++i) {
    if (op.output(i).layout == RT_LAYOUT_ANY) op.fail("a plan needs a layout for every output");
    output_bytes_.push_back(rt::sdk::tensor_bytes(op.output(i)));
  }
  if (desc->algorithm > rt::sdk::kOnlyAlgorithm) {
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

rt_plan_info Planned::info() const {
  rt_plan_info value{};
  value.flags = RT_PLAN_DETERMINISTIC;
  value.workspace_bytes = kernel_.workspace_bytes;
  value.saved_bytes = kernel_.saved_bytes;
  std::copy(kernel_.in_place.begin(), kernel_.in_place.end(), value.in_place);
  rt::sdk::copy_text(value.implementation, kImplementation);
  return value;
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
