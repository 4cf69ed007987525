// The entry of the plugin `simulated`, and its tables.
#include <cstdlib>

#include "backends/simulated/objects.h"
#include "rt/sdk/device_table.h"

namespace backends::simulated {

rt_device* Simulator::open(int32_t index, const rt_device_options& options) {
  return new rt_device(*this, index, parse_options(options));
}

namespace {

constexpr rt_device_api kDeviceTable = rt::sdk::device_table<Simulator>();

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

constexpr rt_device_api make_old_device_table() {
  rt_device_api table = kDeviceTable;
  table.event_synchronize = silent_synchronize;
  table.event_query = silent_query;
  return table;
}

constinit const rt_device_api kOldDeviceTable = make_old_device_table();

rt::sdk::PluginDescription description() {
  return {.name = "simulated",
          .vendor = "runtime",
          .version = RUNTIME_PLUGIN_VERSION,
          .build_id = "simulated-1",
          .description = "accelerators made of the reference kernels",
          .device = is_old() ? &kOldDeviceTable : &kDeviceTable,
          .kernel = &kKernelTable,
          .capture = &kCaptureTable,
          .options = option_specs()};
}

}  // namespace
}  // namespace backends::simulated

rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                          const rt_plugin** plugin, rt_error* error) {
  using backends::simulated::Simulator;
  const rt_status status = rt::sdk::make_plugin<Simulator>(backends::simulated::description, host,
                                                           negotiation, plugin, error);
  if (status == RT_OK && backends::simulated::is_old() &&
      negotiation->size > offsetof(rt_negotiation, plugin_minor))
    negotiation->plugin_minor = 1;
  return status;
}
