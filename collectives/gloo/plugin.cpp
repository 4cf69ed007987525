// The plugin `gloo`: ranks are processes joined by TCP, over the Gloo library. This file has the
// class that the tables of the plugin interface (plugins/include) are made from; communicator.h
// does the work.
#include <numeric>

#include "collectives/shared_memory/option.h"
#include "communicator.h"

namespace collectives::gloo {
namespace {

constexpr rt_option_spec kRanksPerHost = {
    sizeof(rt_option_spec), RT_OPTION_INTEGER, "ranks_per_host", "0",
    "N: each N ranks act as if they had a machine of their own, to try several; 0: as it is"};

struct Instance {
  static rt_comm_properties properties() {
    rt_comm_properties p{};
    // Threads of the communicator do the transfers.
    p.flags = RT_COMM_ABORT_WAKES | RT_COMM_BACKGROUND;
    rt::sdk::copy_text(p.description, "ranks as processes joined by TCP (Gloo)");
    p.ranks = RT_RANKS_ANY_PROCESS;
    p.priority = 200;  // any launcher will do
    // On one machine, while the ranks also compute; idle ones do four times as much.
    p.latency_ns = 5'000;
    p.bytes_per_second = 4'000'000'000;
    return p;
  }
  static std::vector<rt_comm_capability> capabilities() {
    return rt::sdk::all_collectives(rt::sdk::kAllDtypes, 1u << RT_MEMORY_PINNED_HOST);
  }
  static std::unique_ptr<Communicator> create(const rt_host& host, const rt_comm_options& options) {
    const mesh::Deadline deadline = rt::sdk::deadline_in(options.timeout_ns);
    rt::sdk::expect_meeting_place(host, options);
    std::vector<int> names(static_cast<std::size_t>(options.world_size));
    std::iota(names.begin(), names.end(), 0);
    return std::make_unique<Communicator>(
        host,
        Membership{
            .rank = options.rank,
            .size = options.world_size,
            .prefix = options.prefix,
            .shares_memory = shared_memory::is_on(options),
            .ranks_per_host = static_cast<int>(rt::sdk::option_number(options, kRanksPerHost, 0))},
        std::move(names), open_device(options.interface == nullptr ? "" : options.interface),
        deadline);
  }
};

constinit const rt_communicator_api kApi =
    rt::sdk::communicator_table<Instance, Communicator, Work>();
constexpr const rt_option_spec* kOptions[] = {&shared_memory::kOption, &kRanksPerHost};

rt::sdk::PluginDescription description() {
  return {.name = "gloo",
          .vendor = "runtime",
          .version = RUNTIME_PLUGIN_VERSION,
          .build_id = "1",
          .description = "ranks as processes joined by TCP, over Gloo; host memory",
          .communicator = &kApi,
          .options = kOptions};
}

}  // namespace
}  // namespace collectives::gloo

extern "C" rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                                     const rt_plugin** plugin, rt_error* error) {
  using collectives::gloo::Instance;
  return rt::sdk::make_plugin<Instance>(collectives::gloo::description, host, negotiation, plugin,
                                        error);
}
