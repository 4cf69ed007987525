// The plugin "fake": a communicator whose ranks are threads of one process. It proves that the
// table can be implemented, and makes calls fail on purpose for the tests of the host side.
#include <cstring>
#include <memory>

#include "hub.h"
#include "rt/sdk/communicator_table.h"

namespace fake {
namespace {

using rt::sdk::Error;
using Clock = std::chrono::steady_clock;

class Work {
 public:
  Work(std::shared_ptr<Hub> hub, std::shared_ptr<Meeting> meeting)
      : hub_(std::move(hub)), meeting_(std::move(meeting)) {}
  bool poll() { return hub_->wait(meeting_, Clock::now()); }
  void wait(Deadline deadline) {
    if (hub_->wait(meeting_, deadline)) return;
    throw Error(RT_ERROR_TIMEOUT, "not all ranks came to the collective in time");
  }

 private:
  const std::shared_ptr<Hub> hub_;
  const std::shared_ptr<Meeting> meeting_;
};

// No call waits for another one, so a group has nothing to delay.
class Communicator : public rt::sdk::CommunicatorBase {
 public:
  Communicator(std::shared_ptr<Hub> hub, int32_t rank) : hub_(std::move(hub)), rank_(rank) {}

  Work* enqueue(const rt_collective& call);
  std::unique_ptr<Communicator> split(int32_t color, int32_t key, Deadline deadline);
  void abort() { hub_->abort(); }
  std::optional<Error> failure() {
    if (!hub_->aborted()) return std::nullopt;
    return Error(RT_ERROR_ABORTED, "the communicator was aborted", RT_SCOPE_COMMUNICATOR);
  }

 private:
  const std::shared_ptr<Hub> hub_;
  const int32_t rank_;
  uint64_t splits_ = 0;
};

// Each rank sets a key in the host's key-value store and waits for the keys of the others.
void meet_all(const rt_host& host, const rt_comm_options& options) {
  const Deadline deadline = rt::sdk::deadline_in(options.timeout_ns);
  const auto key_of = [&](int32_t rank) {
    return std::string(options.prefix) + "/" + std::to_string(rank);
  };
  rt_error error{};
  error.size = sizeof(error);
  if (host.kv_set(host.context, key_of(options.rank).c_str(), "here", 4, &error) != RT_OK) {
    throw Error(RT_ERROR_COMMUNICATION, error.message);
  }
  std::string missing;
  for (int32_t rank = 0; rank < options.world_size; ++rank) {
    char mark[8];
    uint64_t bytes = sizeof(mark);
    const auto left = std::chrono::nanoseconds(deadline - Clock::now()).count();
    const rt_status status =
        host.kv_get(host.context, key_of(rank).c_str(), mark, &bytes, left > 0 ? left : 0, &error);
    if (status == RT_ERROR_TIMEOUT) {
      missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
    } else if (status != RT_OK) {
      throw Error(RT_ERROR_COMMUNICATION, error.message);
    }
  }
  if (missing.empty()) return;
  throw Error(RT_ERROR_TIMEOUT, "these ranks did not join in time: " + missing,
              RT_SCOPE_COMMUNICATOR);
}

// Ranks exchange colour and key; then each computes its own group and rank.
std::unique_ptr<Communicator> Communicator::split(int32_t color, int32_t key, Deadline deadline) {
  const auto size = static_cast<std::size_t>(hub_->world_size());
  const int32_t mine[2] = {color, key};
  std::vector<int32_t> all(2 * size);
  rt_collective call{};
  call.kind = RT_ALL_GATHER;
  call.dtype = RT_INT32;
  call.send = mine;
  call.receive = all.data();
  call.count = 2;
  call.peer = -1;
  if (!hub_->wait(hub_->enter(rank_, call), deadline)) {
    hub_->abort();  // other ranks may still arrive and would write into `all`
    throw Error(RT_ERROR_TIMEOUT, "not all ranks came to the split", RT_SCOPE_COMMUNICATOR);
  }
  const uint64_t number = splits_++;
  if (color < 0) return nullptr;
  int32_t members = 0, before = 0;
  for (std::size_t rank = 0; rank < size; ++rank) {
    if (all[2 * rank] != color) continue;
    ++members;
    const auto place = std::pair(all[2 * rank + 1], static_cast<int32_t>(rank));
    if (place < std::pair(key, rank_)) ++before;
  }
  const std::string name =
      hub_->name() + "/split" + std::to_string(number) + "/" + std::to_string(color);
  return std::make_unique<Communicator>(find_hub(name, members), before);
}

Work* Communicator::enqueue(const rt_collective& call) {
  if (call.stream != nullptr) {
    throw Error(RT_ERROR_UNSUPPORTED, "a stream was given; this plugin works on host memory only");
  }
  if (call.kind < RT_ALL_REDUCE || call.kind > RT_BARRIER ||
      (rt::sdk::has_peer(call.kind) && (call.peer < 0 || call.peer >= hub_->world_size()))) {
    throw Error(RT_ERROR_INVALID_ARGUMENT,
                rt::sdk::format("collective %d with peer %d", call.kind, call.peer));
  }
  return new Work(hub_, hub_->enter(rank_, call));
}

struct Instance {
  static rt_comm_properties properties() {
    rt_comm_properties p{};
    p.flags = RT_COMM_ABORT_WAKES;
    rt::sdk::copy_text(p.description, "ranks as threads of one process, for tests");
    p.ranks = RT_RANKS_THREADS;
    return p;
  }
  static std::vector<rt_comm_capability> capabilities() {
    return rt::sdk::all_collectives(RT_DTYPE_BIT(RT_FLOAT32) | RT_DTYPE_BIT(RT_FLOAT64) |
                                        RT_DTYPE_BIT(RT_INT32) | RT_DTYPE_BIT(RT_INT64),
                                    1u << RT_MEMORY_PINNED_HOST);
  }
  static std::unique_ptr<Communicator> create(const rt_host& host, const rt_comm_options& options) {
#ifdef FIRST_RELEASE  // whose rt_comm_options ended here
    const auto* bytes = reinterpret_cast<const unsigned char*>(&options);
    if (std::any_of(bytes + RT_COMM_OPTIONS_SIZE_V1, bytes + options.size,
                    [](unsigned char b) { return b != 0; }))
      throw Error(RT_ERROR_TOO_NEW, "rt_comm_options uses a field that is not known");
#endif
    rt::sdk::expect_meeting_place(host, options);
    auto hub = find_hub(options.prefix, options.world_size);
    meet_all(host, options);
    return std::make_unique<Communicator>(std::move(hub), options.rank);
  }
};

constinit const rt_communicator_api kApi =
    rt::sdk::communicator_table<Instance, Communicator, Work>();

rt::sdk::PluginDescription description() {
  return {.name = "fake",
          .vendor = "the runtime's tests",
          .version = "1",
          .build_id = "1",
          .description = "ranks as threads of one process",
          .communicator = &kApi};
}

}  // namespace
}  // namespace fake

extern "C" rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                                     const rt_plugin** plugin, rt_error* error) {
  const rt_status status =
      rt::sdk::make_plugin<fake::Instance>(fake::description, host, negotiation, plugin, error);
#ifdef FIRST_RELEASE
  if (status == RT_OK) negotiation->plugin_minor = 0;
#endif
  return status;
}
