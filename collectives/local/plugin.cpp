// The plugin `local`: ranks are threads of one process. This file has the classes that the tables
// of the plugin interface are made from; group.h says how collectives are carried out.
#include <memory>

#include "collectives/local/call.h"
#include "collectives/local/chunks.h"
#include "collectives/local/hub.h"
#include "rt/sdk/communicator_table.h"

namespace collectives::local {
namespace {

using rt::sdk::Error;

// One rank of a group.
class Rank : public rt::sdk::CommunicatorBase {
 public:
  Rank(std::shared_ptr<Group> group, int32_t rank) : group_(std::move(group)), rank_(rank) {}
  ~Rank() { group_->leave(rank_); }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  // Starting a call never waits for another call, so a group needs no special treatment.
  Work* enqueue(const rt_collective& call) {
    check_call(call, rank_, group_->size());
    return &group_->enter(rank_, call);
  }
  std::unique_ptr<Rank> split(int32_t color, int32_t key, Deadline deadline) {
    SplitResult split = group_->split(rank_, color, key, deadline);
    return split.group ? std::make_unique<Rank>(std::move(split.group), split.rank) : nullptr;
  }
  void abort() { group_->abort(); }
  std::optional<Error> failure() { return group_->failure(); }
  Group& group() { return *group_; }
  int32_t rank() const { return rank_; }

 private:
  const std::shared_ptr<Group> group_;
  const int32_t rank_;
};

struct Instance {
  static rt_comm_properties properties() {
    rt_comm_properties p{};
    p.flags = RT_COMM_ABORT_WAKES;  // not RT_COMM_BACKGROUND: the ranks that wait copy the data
    rt::sdk::copy_text(p.description, "ranks as threads of one process, in shared memory");
    p.ranks = RT_RANKS_THREADS;
    p.priority = 100;
    // A rank wakes another one, and one of them copies the data from memory to memory.
    p.latency_ns = 5'000;
    p.bytes_per_second = 8'000'000'000;
    return p;
  }
  // Every collective supports every type and reduction, in all memory that the host can access.
  static std::vector<rt_comm_capability> capabilities() {
    return rt::sdk::all_collectives(rt::sdk::kAllDtypes,
                                    1u << RT_MEMORY_PINNED_HOST | 1u << RT_MEMORY_DEVICE);
  }
  std::unique_ptr<Rank> create(const rt_host&, const rt_comm_options& options) {
    const int32_t rank = options.rank, size = options.world_size;
    if (size < 1 || size > static_cast<int32_t>(kMaxRanks) || rank < 0 || rank >= size) {
      throw Error(RT_ERROR_INVALID_ARGUMENT,
                  rt::sdk::format("local: rank %d of %d; expected 1 to %zu ranks, counted from 0",
                                  rank, size, kMaxRanks));
    }
    return std::make_unique<Rank>(
        hub.join(options.prefix, rank, size, rt::sdk::deadline_in(options.timeout_ns)), rank);
  }

  Hub hub = {};
};

constinit const rt_communicator_api kApi = rt::sdk::communicator_table<Instance, Rank, Work>();

rt::sdk::PluginDescription description() {
  return {.name = "local",
          .vendor = "runtime",
          .version = RUNTIME_PLUGIN_VERSION,
          .build_id = "1",
          .description = "ranks as threads of one process",
          .communicator = &kApi};
}

}  // namespace
}  // namespace collectives::local

rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                          const rt_plugin** plugin, rt_error* error) {
  using collectives::local::Instance;
  return rt::sdk::make_plugin<Instance>(collectives::local::description, host, negotiation, plugin,
                                        error);
}
