// The entry of the plugin `simulated`, and its tables.
#include "backends/simulated/objects.h"
#include "rt/sdk/device_table.h"

namespace backends::simulated {

rt_device* Simulator::open(int32_t index, const rt_device_options& options) {
  return new rt_device(*this, index, parse_options(options));
}

namespace {

// The numbers are arbitrary: there is no hardware whose load could be told.
rt_status utilisation(rt_device*, rt_utilisation* utilisation, rt_error* error) {
  return rt::sdk::guard(error, [&] {
    rt::sdk::write_output(utilisation, rt_utilisation{0, 42, 17, 55, 123456});
  });
}

rt_device_api make_device_table() {
  rt_device_api table = rt::sdk::device_table<Simulator>();
  table.utilisation = utilisation;
  return table;
}

const rt_device_api kDeviceTable = make_device_table();
const rt::sdk::DevicePlugin kPlugin = {.name = "simulated",
                                       .vendor = "runtime",
                                       .version = RUNTIME_PLUGIN_VERSION,
                                       .build_id = "simulated-1",
                                       .description = "accelerators made of the reference kernels",
                                       .device = &kDeviceTable,
                                       .kernel = &kKernelTable,
                                       .capture = &kCaptureTable,
                                       .options = option_specs};

}  // namespace
}  // namespace backends::simulated

rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                          const rt_plugin** plugin, rt_error* error) {
  return rt::sdk::make_device_plugin<backends::simulated::Simulator>(
      backends::simulated::kPlugin, host, negotiation, plugin, error);
}
