// The entry point of the plugin `reference`, and its tables. Plans are around the kernels of
// kernel.h.
#include "backends/reference/objects.h"
#include "rt/sdk/device_table.h"
#include "rt/sdk/kernel_table.h"

namespace backends::reference {
namespace {

void query(rt_device&, const rt_op_desc* op, rt_support* support) { answer_query(op, support); }

rt_plan* create(rt_device&, const rt_op_desc* op) {
  rt::sdk::check_input(op);
  return new rt_plan{Planned(op, op->forward ? &op->forward->planned : nullptr)};
}

constinit const rt_device_api kDeviceApi = rt::sdk::device_table<Devices>();
constinit const rt_kernel_api kKernelApi = rt::sdk::plan_table<query, create>();

rt::sdk::PluginDescription description() {
  return {.name = "reference",
          .vendor = "runtime",
          .version = RUNTIME_PLUGIN_VERSION,
          .build_id = "reference-1",
          .description = "plain C++ on one thread: the definition of every operation",
          .device = &kDeviceApi,
          .kernel = &kKernelApi};
}

}  // namespace
}  // namespace backends::reference

rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                          const rt_plugin** plugin, rt_error* error) {
  using backends::reference::Devices;
  return rt::sdk::make_plugin<Devices>(backends::reference::description, host, negotiation, plugin,
                                       error);
}
