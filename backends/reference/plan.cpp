// The table rt.kernel: plans around the kernels of kernel.h.
#include <memory>

#include "backends/reference/objects.h"

namespace backends::reference {
namespace {

using rt::sdk::guard;

rt_status query(rt_device*, const rt_op_desc* op, rt_support* support, rt_error* error) {
  return guard(error, [&] { answer_query(op, support); });
}

rt_status create(rt_device*, const rt_op_desc* op, rt_plan** plan, rt_error* error) {
  return guard(error, [&] {
    rt::sdk::check_input(op);
    *plan = new rt_plan{Planned(op, op->forward ? &op->forward->planned : nullptr)};
  });
}

void destroy(rt_plan* plan) { delete plan; }

rt_status info(const rt_plan* plan, rt_plan_info* info, rt_error* error) {
  return guard(error, [&] { plan->planned.fill_info(info); });
}

rt_status launch(rt_plan* plan, rt_stream*, const rt_launch* launch, rt_error* error) {
  return guard(error, [&] {
    plan->planned.check_launch(launch);
    plan->planned.kernel().run({launch->inputs, launch->outputs, launch->workspace, launch->saved});
  });
}

void expect_canonical(const rt_tensor_desc* tensor) {
  rt::sdk::check_input(tensor);
  if (tensor->layout == RT_LAYOUT_CANONICAL) return;
  throw rt::sdk::Error(RT_ERROR_UNSUPPORTED,
                       rt::sdk::format("layout 0x%llx is unknown; the reference has the canonical "
                                       "layout (0) only",
                                       static_cast<unsigned long long>(tensor->layout)));
}

rt_status layout_bytes(rt_device*, const rt_tensor_desc* tensor, uint64_t* bytes, rt_error* error) {
  return guard(error, [&] {
    expect_canonical(tensor);
    *bytes = tensor_bytes(*tensor);
  });
}

rt_status layout_name(rt_device*, const rt_tensor_desc* tensor, char* name, uint64_t capacity,
                      rt_error* error) {
  return guard(error, [&] {
    expect_canonical(tensor);
    std::snprintf(name, capacity, "canonical");
  });
}

}  // namespace

const rt_kernel_api* kernel_table() {
  static const rt_kernel_api table = {sizeof(rt_kernel_api),
                                      RT_KERNEL_API_VERSION,
                                      query,
                                      create,
                                      destroy,
                                      info,
                                      launch,
                                      layout_bytes,
                                      layout_name};
  return &table;
}

}  // namespace backends::reference
