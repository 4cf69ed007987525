#include <algorithm>

#include "tests/backends/simulated/objects.h"

namespace backends::simulated {
namespace {

using rt::sdk::format;
using rt::sdk::guard;

bool is_refused(const Device& device, const rt_op_desc& op) {
  const auto& refused = device.options().refuse;
  return std::find(refused.begin(), refused.end(), op.name) != refused.end();
}

rt_status query(rt_device* device, const rt_op_desc* op, rt_support* support, rt_error* error) {
  return guard(error, [&] {
    reference::answer_query(op, support);
    if (!is_refused(device->device, *op)) return;
    support->level = RT_SUPPORT_REFUSED;
    support->candidate_count = 0;
    rt::sdk::copy_text(support->reason, format("%s is refused by the option 'refuse'", op->name));
  });
}

rt_status create(rt_device* device, const rt_op_desc* op, rt_plan** plan, rt_error* error) {
  return guard(error, [&] {
    rt::sdk::check_input(op);
    const reference::Planned* forward = op->forward ? op->forward->planned.get() : nullptr;
    auto planned = std::make_shared<const reference::Planned>(op, forward);
    if (is_refused(device->device, *op)) {
      throw rt::sdk::Error(RT_ERROR_UNSUPPORTED,
                           format("%s is refused by the option 'refuse'", op->name));
    }
    *plan = new rt_plan{std::move(planned)};
  });
}

void destroy(rt_plan* plan) { delete plan; }

rt_status info(const rt_plan* plan, rt_plan_info* info, rt_error* error) {
  return guard(error, [&] {
    plan->planned->fill_info(info);
    info->flags |= RT_PLAN_CAPTURABLE;
  });
}

rt_status launch(rt_plan* plan, rt_stream* stream, const rt_launch* launch, rt_error* error) {
  return guard(error, [&] {
    plan->planned->check_launch(launch);
    LaunchTask task{};
    task.planned = plan->planned;
    std::copy_n(launch->inputs, launch->input_count, task.inputs.begin());
    std::copy_n(launch->outputs, launch->output_count, task.outputs.begin());
    task.workspace = launch->workspace;
    task.saved = launch->saved;
    stream->stream.submit(std::move(task));
  });
}

void expect_canonical(const rt_tensor_desc* tensor) {
  rt::sdk::check_input(tensor);
  if (tensor->layout == RT_LAYOUT_CANONICAL) return;
  throw rt::sdk::Error(RT_ERROR_UNSUPPORTED,
                       format("layout 0x%llx is unknown; simulated devices have the canonical "
                              "layout (0) only",
                              static_cast<unsigned long long>(tensor->layout)));
}

rt_status layout_bytes(rt_device*, const rt_tensor_desc* tensor, uint64_t* bytes, rt_error* error) {
  return guard(error, [&] {
    expect_canonical(tensor);
    *bytes = reference::tensor_bytes(*tensor);
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

}  // namespace backends::simulated
