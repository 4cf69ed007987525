// Implements the table of C functions of kernels with one operation, `scale`, in float32. Add
// further operations in plan_for. If plan_for throws RT_ERROR_UNSUPPORTED, query answers with a
// refusal and that reason, and create fails.
#include <cstring>
#include <memory>

#include "rt/operations.h"
#include "rt/sdk/error.h"
#include "rt/sdk/operation.h"
#include "template.h"

struct rt_plan {
  int64_t count = 0;
  float alpha = 1.0f, beta = 0.0f;
};

namespace template_device {
namespace {

using rt::sdk::Error;
using rt::sdk::guard;
using rt::sdk::Operation;
using rt::sdk::write_output;

// Checks everything that is the same in every launch.
rt_plan plan_for(const Operation& op) {
  if (!op.is(RT_OP_SCALE)) {
    throw Error(RT_ERROR_UNSUPPORTED,
                "only scale is supported, asked for " + std::string(op.name()));
  }
  if (op.input_count() != 1 || op.output_count() != 1 ||
      !rt::sdk::same_dims(op.input(0), op.output(0))) {
    op.fail("expected one input and one output of the same dims");
  }
  if (op.input(0).dtype != RT_FLOAT32 || op.output(0).dtype != RT_FLOAT32) {
    throw Error(RT_ERROR_UNSUPPORTED,
                "scale of " + rt::sdk::to_string(op.input(0)) + "; only float32 is supported");
  }
  return {rt::sdk::element_count(op.input(0)), static_cast<float>(op.number(RT_ATTR_ALPHA, 1.0)),
          static_cast<float>(op.number(RT_ATTR_BETA, 0.0))};
}

rt_status query(rt_device*, const rt_op_desc* op, rt_support* support, rt_error* error) {
  return guard(error, [&] {
    rt::sdk::check_size(support);
    support->post_ops_fused = 0;
    support->deterministic = 1;
    support->tolerance = 0.0;
    support->reason_operand = -1;
    support->candidate_count = 0;  // no list: all operands have the canonical layout
    support->reason[0] = '\0';
    try {
      plan_for(Operation(op));
      support->level = RT_SUPPORT_NATIVE;
    } catch (const Error& refusal) {
      if (refusal.code() != RT_ERROR_UNSUPPORTED) throw;
      support->level = RT_SUPPORT_REFUSED;
      rt::sdk::copy_text(support->reason, refusal.what());
    }
  });
}

rt_status create(rt_device*, const rt_op_desc* op, rt_plan** plan, rt_error* error) {
  return guard(error, [&] {
    const Operation operation(op);
    if (operation.post_op_count() > 0) {
      throw Error(RT_ERROR_UNSUPPORTED, "post-operations; query says that none is fused");
    }
    *plan = std::make_unique<rt_plan>(plan_for(operation)).release();
  });
}

rt_status info(const rt_plan*, rt_plan_info* result, rt_error* error) {
  return guard(error, [&] {
    rt_plan_info value{};
    value.flags = RT_PLAN_DETERMINISTIC;
    value.in_place[0] = 1u;  // output 0 may use the memory of input 0
    rt::sdk::copy_text(value.implementation, "template scale");
    write_output(result, value);
  });
}

// A launch must not allocate, and on a queued stream it must not wait.
rt_status launch(rt_plan* plan, rt_stream*, const rt_launch* launch, rt_error* error) {
  return guard(error, [&] {
    rt::sdk::check_input(launch);
    const auto* x = static_cast<const float*>(launch->inputs[0]);
    auto* y = static_cast<float*>(launch->outputs[0]);
    for (int64_t i = 0; i < plan->count; ++i) y[i] = plan->alpha * x[i] + plan->beta;
  });
}

void require_canonical(const rt_tensor_desc* tensor) {
  rt::sdk::check_input(tensor);
  if (tensor->layout != RT_LAYOUT_CANONICAL) {
    throw Error(RT_ERROR_UNSUPPORTED, "only the canonical layout is supported");
  }
}

rt_status layout_bytes(rt_device*, const rt_tensor_desc* tensor, uint64_t* bytes, rt_error* error) {
  return guard(error, [&] {
    require_canonical(tensor);
    *bytes = static_cast<uint64_t>(rt::sdk::element_count(*tensor)) *
             rt::sdk::dtype_bytes(tensor->dtype);
  });
}

rt_status layout_name(rt_device*, const rt_tensor_desc* tensor, char* name, uint64_t capacity,
                      rt_error* error) {
  return guard(error, [&] {
    require_canonical(tensor);
    std::snprintf(name, capacity, "canonical");
  });
}

}  // namespace

const rt_kernel_api kKernelApi = {sizeof(rt_kernel_api),
                                  RT_KERNEL_API_VERSION,
                                  query,
                                  create,
                                  [](rt_plan* plan) { delete plan; },
                                  info,
                                  launch,
                                  layout_bytes,
                                  layout_name};

}  // namespace template_device
