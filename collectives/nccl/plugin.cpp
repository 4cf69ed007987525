// The plugin `nccl` or `rccl`: ranks with a GPU each, over the library of the vendor. This file has
// the class that the tables of the plugin interface (plugins/include) are made from; communicator.h
// does the work.
#include "communicator.h"

namespace collectives::nccl {
namespace {

struct Instance {
  static rt_comm_properties properties() {
    rt_comm_properties p{};
    p.flags = RT_COMM_ABORT_WAKES | RT_COMM_BACKGROUND;  // collectives run on streams
    rt::sdk::copy_text(p.device_plugin, kDevicePlugin);
    rt::sdk::copy_text(p.description, rt::sdk::format("ranks with a GPU each, over %s", kName));
    p.ranks = RT_RANKS_ANY_PROCESS;
    p.priority = 0;  // "auto" takes it by device_plugin, and never for ranks without such devices
    // Latency and bandwidth stay unknown: they are not measured yet, and a GPU's links differ by
    // far more than those of a host.
    return p;
  }
  static std::vector<rt_comm_capability> capabilities() {
    auto rows = rt::sdk::all_collectives(rt::sdk::kAllDtypes, 1u << RT_MEMORY_DEVICE);
    for (rt_comm_capability& row : rows) {
      row.flags |= RT_COMM_ON_STREAM;
      // An all-to-all is made of sends and receives, which in place would read data that other
      // ranks have already overwritten.
      if (row.collective == RT_ALL_TO_ALL) row.flags &= ~RT_COMM_IN_PLACE;
      if (Communicator::is_capturable(row.collective)) row.flags |= RT_COMM_CAPTURABLE;
    }
    return rows;
  }
  static std::unique_ptr<Communicator> create(const rt_host& host, const rt_comm_options& options) {
    return std::make_unique<Communicator>(host, options);
  }
};

constinit const rt_communicator_api kApi =
    rt::sdk::communicator_table<Instance, Communicator, Work>();

std::string library_version() {
  int version = 0;
  check_nccl(ncclGetVersion(&version), "read the version");
  return rt::sdk::format(RUNTIME_PLUGIN_VERSION " (%s %d.%d.%d)", kName, version / 10000,
                         version / 100 % 100, version % 100);
}

rt::sdk::PluginDescription description() {
  const std::string version = library_version();
  return {
      .name = kName,
      .vendor = "runtime",
      .version = version,
      .build_id = version,
      .description = "ranks with a GPU each, joined by the library of its vendor; device memory",
      .communicator = &kApi};
}

}  // namespace
}  // namespace collectives::nccl

extern "C" rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                                     const rt_plugin** plugin, rt_error* error) {
  using collectives::nccl::Instance;
  return rt::sdk::make_plugin<Instance>(collectives::nccl::description, host, negotiation, plugin,
                                        error);
}
