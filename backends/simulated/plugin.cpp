// The entry of the plugin `simulated`, and its tables.
#include <cstdlib>

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

// A plugin of minor version 1, whose events say nothing of errors.
constexpr char kMinorVariable[] = "RUNTIME_SIMULATED_MINOR";
bool is_old() {
  const char* const minor = std::getenv(kMinorVariable);
  return minor != nullptr && std::string_view(minor) == "1";
}

rt_status silent_synchronize(rt_event* event, rt_error*) {
  rt::sdk::guard(nullptr, [&] { event->synchronize(); });
  return RT_OK;
}

rt_status silent_query(rt_event* event, rt_error*) {
  return event->is_complete() ? RT_OK : RT_NOT_READY;
}

rt_device_api make_old_device_table() {
  rt_device_api table = make_device_table();
  table.event_synchronize = silent_synchronize;
  table.event_query = silent_query;
  return table;
}

const rt_device_api kOldDeviceTable = make_old_device_table();
const rt::sdk::DevicePlugin kPlugin = {.name = "simulated",
                                       .vendor = "runtime",
                                       .version = RUNTIME_PLUGIN_VERSION,
                                       .build_id = "simulated-1",
                                       .description = "accelerators made of the reference kernels",
                                       .device = &kDeviceTable,
                                       .kernel = &kKernelTable,
                                       .capture = &kCaptureTable,
                                       .options = option_specs};

rt::sdk::DevicePlugin make_old_plugin() {
  rt::sdk::DevicePlugin plugin = kPlugin;
  plugin.device = &kOldDeviceTable;
  return plugin;
}

const rt::sdk::DevicePlugin kOldPlugin = make_old_plugin();

}  // namespace
}  // namespace backends::simulated

rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                          const rt_plugin** plugin, rt_error* error) {
  using backends::simulated::kOldPlugin;
  using backends::simulated::kPlugin;
  using backends::simulated::Simulator;
  const bool old = backends::simulated::is_old();
  const rt_status status = rt::sdk::make_device_plugin<Simulator>(old ? kOldPlugin : kPlugin, host,
                                                                  negotiation, plugin, error);
  if (status == RT_OK && old && negotiation->size > offsetof(rt_negotiation, plugin_minor))
    negotiation->plugin_minor = 1;
  return status;
}
