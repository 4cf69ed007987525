// The entry, and what all communicators of the plugin have in common.
#include "communicator.h"

namespace template_communicator {
namespace {

// One instance of the plugin; the methods are those of rt/sdk/communicator_table.h.
struct Instance {
  static rt_comm_properties properties() {
    rt_comm_properties value{};
    value.flags = RT_COMM_ABORT_WAKES | RT_COMM_BACKGROUND;
    rt::sdk::copy_text(value.description, "every message through the job's key-value store");
    value.ranks = RT_RANKS_ANY_PROCESS;
    value.priority = 0;  // comm.backend = "auto" never takes it
    return value;
  }
  // Every collective that only moves elements moves those of any type.
  static std::vector<rt_comm_capability> capabilities() {
    auto rows = rt::sdk::all_collectives(rt::sdk::kAllDtypes, 1u << RT_MEMORY_PINNED_HOST);
    for (rt_comm_capability& row : rows)
      if (rt::sdk::reduces(row.collective)) row.dtypes = kReducedTypes;
    return rows;
  }
  static std::unique_ptr<Communicator> create(const rt_host& host, const rt_comm_options& options) {
    rt::sdk::expect_meeting_place(host, options);
    auto made = std::make_unique<Communicator>(host, options.prefix,
                                               Place{options.rank, options.world_size});
    made->meet(rt::sdk::deadline_in(options.timeout_ns));
    return made;
  }
};

constinit const rt_communicator_api kApi =
    rt::sdk::communicator_table<Instance, Communicator, Work>();

rt::sdk::PluginDescription description() {
  return {.name = "template_communicator",  // selected by comm.backend
          .vendor = "your name",
          .version = RUNTIME_PLUGIN_VERSION,
          .build_id = "template_communicator-" RUNTIME_PLUGIN_VERSION,
          .description = "a communicator to start from",
          .communicator = &kApi};
}

}  // namespace
}  // namespace template_communicator

extern "C" rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                                     const rt_plugin** plugin, rt_error* error) {
  using template_communicator::Instance;
  return rt::sdk::make_plugin<Instance>(template_communicator::description, host, negotiation,
                                        plugin, error);
}
