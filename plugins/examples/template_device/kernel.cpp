// The operations. To add one, write a function that checks its description and returns the plan,
// and add a row to kOperations. If the function throws a refusal (rt/sdk/refusal.h), the host is
// told the reason and computes the operation in another way, or names it as missing.
#include <memory>

#include "rt/operations.h"
#include "rt/sdk/expect.h"
#include "template_device.h"

using rt::sdk::Operation;

namespace template_device {
namespace {

constexpr uint64_t kTypes = RT_DTYPE_BIT(RT_FLOAT32);

// y = alpha x + beta
rt_plan plan_scale(const Operation& op) {
  const rt_dtype dtype = rt::sdk::computed_type(op, 0, "x", kTypes);
  rt::sdk::expect_counts(op, 1, 1);
  rt::sdk::expect_output(op, 0, "y", dtype, rt::sdk::dims_of(op.input(0)));
  const int64_t count = rt::sdk::element_count(op.input(0));
  const auto alpha = static_cast<float>(op.number(RT_ATTR_ALPHA, 1.0)),
             beta = static_cast<float>(op.number(RT_ATTR_BETA, 0.0));
  rt_plan plan;
  plan.implementation = "template_device scale";
  plan.in_place = true;
  plan.run = [=](const rt_launch& launch) {
    const auto* x = static_cast<const float*>(launch.inputs[0]);
    auto* y = static_cast<float*>(launch.outputs[0]);
    for (int64_t i = 0; i < count; ++i) y[i] = alpha * x[i] + beta;
  };
  return plan;
}

constexpr struct {
  const char* name;
  rt_plan (*plan)(const Operation& op);
} kOperations[] = {
    {RT_OP_SCALE, plan_scale},
};

rt_plan plan_for(const Operation& op) {
  for (const auto& operation : kOperations)
    if (op.is(operation.name)) return operation.plan(op);
  rt::sdk::refuse(op, "there is no kernel for it");
}

}  // namespace

void check_supported(rt_device&, const Operation& op) { plan_for(op); }

rt_plan* make_plan(rt_device&, const Operation& op) { return new rt_plan(plan_for(op)); }

}  // namespace template_device

rt_plan_info rt_plan::info() const {
  rt_plan_info info{};
  info.flags = RT_PLAN_DETERMINISTIC;
  info.in_place[0] = in_place ? 1u : 0u;
  rt::sdk::copy_text(info.implementation, implementation);
  return info;
}
