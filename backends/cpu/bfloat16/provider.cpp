#include "backends/cpu/bfloat16/provider.h"

#include <utility>

#include "backends/cpu/bfloat16/plans.h"
#include "backends/cpu/bfloat16/widened.h"
#include "backends/cpu/post_chain.h"
#include "rt/operations.h"

namespace backends::cpu {
namespace {

// Whether NativeProvider serves the operation in bfloat16 by itself.
bool is_native(const Operation& op) {
  const NativeKernel* const kernel = find_native_kernel(op);
  return kernel != nullptr && kernel->has(NativeKernel::kBfloat16);
}

std::unique_ptr<Plan> make_own_plan(const NativeContext& context, const Operation& op) {
  auto plan = make_bfloat16_attention(context, op);
  return plan ? std::move(plan) : make_bfloat16_flat(context, op);
}

}  // namespace

Answer Bfloat16Provider::query(const Operation& op) {
  Answer answer;
  if (!has_bfloat16_operand(op)) return answer;
  const int32_t operand = foreign_operand(op);
  if (operand >= 0 && op.is(RT_OP_COPY)) return answer;  // the provider of the layout does it
  if (is_native(op) && operand < 0) return native_.query(op);
  const WideOperation wide(op);
  answer = native_.query(Operation(wide.desc()));
  if (answer.level == RT_SUPPORT_REFUSED) return answer;
  if (operand >= 0) {
    Answer refusal;
    refusal.reason_operand = operand;
    refusal.reason =
        std::string(op.name()) + ": in bfloat16 every operand must have the canonical layout";
    return refusal;
  }
  const auto plan = make_own_plan(context_, op);
  for (Candidate& c : answer.candidates) {
    c.implementation = plan ? plan->info().implementation : "bfloat16:widened:" + c.implementation;
  }
  return answer;
}

std::unique_ptr<Plan> Bfloat16Provider::create(const Operation& op, uint32_t algorithm) {
  const Answer answer = query(op);
  if (answer.level == RT_SUPPORT_REFUSED) {
    if (algorithm == 0) return nullptr;
    throw rt::sdk::Error(RT_ERROR_UNSUPPORTED, answer.reason);
  }
  check_prefix(op, answer.post_ops_fused);
  if (is_native(op)) return native_.create(op, algorithm);
  if (auto plan = make_own_plan(context_, op)) return plan;
  const WideOperation wide(op);
  return std::make_unique<WidenedPlan>(context_.engine, op,
                                       native_.create(Operation(wide.desc()), algorithm));
}

}  // namespace backends::cpu
