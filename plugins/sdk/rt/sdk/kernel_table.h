// The table rt.kernel made from functions and a class of plans, with exceptions turned into
// statuses; and that of a plugin with one implementation per operation, in canonical layouts.
#ifndef RT_SDK_KERNEL_TABLE_H_
#define RT_SDK_KERNEL_TABLE_H_

#include <memory>
#include <type_traits>

#include "rt/sdk/answer.h"

namespace rt::sdk {

// What a plan remembers of its operation, so that launches can be checked: the host does not check
// them. The table fills it.
struct PlanBase {
  uint32_t input_count = 0, output_count = 0;  // those of post-operations included
};

// Throws Error (RT_ERROR_INVALID_ARGUMENT) unless the launch has the operands of the plan.
inline void check_launch(const PlanBase& plan, const rt_launch* launch) {
  check_input(launch);
  if (launch->input_count == plan.input_count && launch->output_count == plan.output_count) return;
  throw Error(
      RT_ERROR_INVALID_ARGUMENT,
      format("launched with %u inputs and %u outputs; the plan has %u and %u", launch->input_count,
             launch->output_count, plan.input_count, plan.output_count));
}

// Makes the table of a plugin that answers queries by itself. The plugin defines
//   void query(rt_device&, const rt_op_desc*, rt_support*): checks both, and fills the whole
//     answer;
//   rt_plan* create(rt_device&, const rt_op_desc*): checks it, and makes a plan, which the table
//     deletes;
//   rt_plan: rt_plan_info info() const; void launch(rt_stream&, const rt_launch&), whose launch is
//     checked by check_launch if rt_plan derives from PlanBase, else by check_input only.
// Layouts are canonical: set the slots layout_bytes and layout_name for others.
template <auto query, auto create, typename Plan = rt_plan>
constexpr rt_kernel_api plan_table() {
  rt_kernel_api t{};
  t.size = sizeof(t);
  t.version = RT_KERNEL_API_VERSION;
  t.query = [](rt_device* device, const rt_op_desc* op, rt_support* support, rt_error* error) {
    return guard(error, [&] { query(*device, op, support); });
  };
  t.create = [](rt_device* device, const rt_op_desc* op, Plan** plan, rt_error* error) {
    return guard(error, [&] { *plan = create(*device, op); });
  };
  t.destroy = [](Plan* plan) { delete plan; };
  t.info = [](const Plan* plan, rt_plan_info* info, rt_error* error) {
    return guard(error, [&] { write_output(info, plan->info()); });
  };
  t.launch = [](Plan* plan, rt_stream* stream, const rt_launch* launch, rt_error* error) {
    return guard(error, [&] {
      if constexpr (std::is_base_of_v<PlanBase, Plan>) {
        check_launch(*plan, launch);
      } else {
        check_input(launch);
      }
      plan->launch(*stream, *launch);
    });
  };
  t.layout_bytes = canonical_layout_bytes;
  t.layout_name = canonical_layout_name;
  return t;
}

// Makes the table of a plugin with one implementation per operation. The plugin defines
//   void check(rt_device&, const Operation&): throws what make would throw, and makes nothing;
//   rt_plan* make(rt_device&, const Operation&): makes a plan, which the table deletes;
//   rt_plan, derived from PlanBase: rt_plan_info info() const; void launch(rt_stream&, const
//   rt_launch&).
// `implementation` is what candidates are called. The table offers no post-operations: the host
// then emits them as operations.
template <const char* implementation, auto check, auto make, typename Plan = rt_plan>
constexpr rt_kernel_api kernel_table() {
  constexpr auto query = [](auto& device, const rt_op_desc* op, rt_support* support) {
    answer_query(Operation(op), {.implementation = implementation}, support,
                 [&](const Operation& part) { check(device, part); });
  };
  constexpr auto create = [](auto& device, const rt_op_desc* desc) {
    const Operation op(desc);
    expect_plannable(op);
    if (op.post_op_count() > 0) refuse(op, "post-operations, of which query says that none fuses");
    Plan* const plan = make(device, op);
    plan->input_count = op.input_count();
    plan->output_count = op.output_count();
    return plan;
  };
  return plan_table<query, create, Plan>();
}

// The same for a plan that one function builds. The plugin defines
//   rt_plan(rt_device&, const Operation&, bool build), and the functions above;
//   void add(rt_plan&): throws if the operation is not supported, else adds what launches run.
// A query builds a plan, too, with `build` false: adding then makes no object of the device.
template <const char* implementation, auto add, typename Plan = rt_plan>
constexpr rt_kernel_api built_kernel_table() {
  constexpr auto check = [](auto& device, const Operation& op) {
    Plan plan(device, op, false);
    add(plan);
  };
  constexpr auto make = [](auto& device, const Operation& op) {
    auto plan = std::make_unique<Plan>(device, op, true);
    add(*plan);
    return plan.release();
  };
  return kernel_table<implementation, check, make, Plan>();
}

}  // namespace rt::sdk

#endif  // RT_SDK_KERNEL_TABLE_H_
