#include "backends/cpu/bfloat16/provider.h"

#include <algorithm>
#include <iterator>

#include "backends/cpu/bfloat16/plans.h"
#include "backends/cpu/bfloat16/widened.h"
#include "backends/cpu/post_chain.h"
#include "rt/operations.h"

namespace backends::cpu {
namespace {

// Operations that move whole elements, whatever their type is, or that write a copy in bfloat16.
constexpr const char* kOfAnyType[] = {RT_OP_COPY, RT_OP_CONCAT, RT_OP_SLICE,     RT_OP_PAD,
                                      RT_OP_SGD,  RT_OP_ADAMW,  RT_OP_TRANSPOSE, RT_OP_EMBEDDING};

bool takes_any_type(const Operation& op) {
  return std::any_of(std::begin(kOfAnyType), std::end(kOfAnyType),
                     [&](const char* name) { return op.is(name); });
}

// The number of the first operand with a foreign layout (outputs from 100); -1: none.
int32_t foreign_operand(const Operation& op) {
  const auto foreign = [](uint64_t layout) {
    return layout != RT_LAYOUT_CANONICAL && layout != RT_LAYOUT_ANY;
  };
  for (uint32_t i = 0; i < op.input_count(); ++i) {
    if (foreign(op.input(i).layout)) return static_cast<int32_t>(i);
  }
  for (uint32_t i = 0; i < op.output_count(); ++i) {
    if (foreign(op.output(i).layout)) return static_cast<int32_t>(100 + i);
  }
  return -1;
}

}  // namespace

Answer Bfloat16Provider::query(const Operation& op) {
  Answer answer;
  if (!has_bfloat16_operand(op)) return answer;
  const bool reorders = op.is(RT_OP_COPY) && foreign_operand(op) >= 0;
  if (reorders) return answer;  // the provider of the layout does it
  const WideOperation wide(op);
  if (takes_any_type(op)) return native_.query(op);
  answer = native_.query(Operation(wide.desc()));
  if (answer.level == RT_SUPPORT_REFUSED) return answer;
  if (const int32_t operand = foreign_operand(op); operand >= 0) {
    Answer refusal;
    refusal.reason_operand = operand;
    refusal.reason =
        std::string(op.name()) + ": in bfloat16 every operand must have the canonical layout";
    return refusal;
  }
  for (Candidate& c : answer.candidates) {
    if (const auto plan = make_bfloat16_plan(context_, op)) {
      c.implementation = plan->info().implementation;
    } else {
      c.implementation = "bfloat16:widened:" + c.implementation;
    }
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
  if (takes_any_type(op)) return native_.create(op, algorithm);
  if (auto plan = make_bfloat16_plan(context_, op)) return plan;
  const WideOperation wide(op);
  return std::make_unique<WidenedPlan>(context_.engine, op,
                                       native_.create(Operation(wide.desc()), algorithm));
}

}  // namespace backends::cpu
