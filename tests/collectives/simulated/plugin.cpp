// The plugin "simulated_comm": a communicator that reads device memory of `simulated` on the
// devices' streams, as NCCL does for cuda: its calls block the stream, never the host. With
// SIMULATED_COMM=both it also accepts host memory, and memory of devices without a stream, as MPI
// may. With SIMULATED_COMM=lies it claims the same, but sums in device memory are wrong. If
// SIMULATED_COMM has the word "separate", it does not work in place and refuses calls that do.
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "backends/simulated/objects.h"
#include "rt/sdk/communicator_table.h"
#include "rt/sdk/operation.h"
#include "tests/collectives/simulated/world.h"

namespace collectives::simulated {
namespace {

using rt::sdk::Error;

// A started collective: what the host knows as rt_work.
struct Work {
  bool poll() {
    const std::lock_guard lock(mutex);
    if (error) throw Error(*error);
    return done;
  }
  void wait(rt::sdk::Deadline deadline) {
    while (!poll()) {
      if (std::chrono::steady_clock::now() > deadline)
        throw Error(RT_ERROR_TIMEOUT, "not complete in time");
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  void release() { std::shared_ptr<Work>(std::move(self)).reset(); }

  std::mutex mutex;
  bool done = false;
  std::optional<Error> error;
  std::shared_ptr<Work> self;  // keeps the work alive until it is released and has run
};

bool is_mode(const char* mode) {
  const char* set = std::getenv("SIMULATED_COMM");
  return set != nullptr && std::string(set).find(mode) != std::string::npos;
}
bool reads_both() { return is_mode("both") || is_mode("lies"); }

constexpr uint64_t kDtypes =
    RT_DTYPE_BIT(RT_FLOAT32) | RT_DTYPE_BIT(RT_FLOAT64) | RT_DTYPE_BIT(RT_UINT8);

void run(const std::string& name, const rt_collective& call, const World& world,
         const backends::simulated::Device* device, Work& work) {
  std::optional<Error> failure;
  try {
    const uint64_t bytes =
        call.kind == RT_BARRIER ? 0 : call.count * rt::sdk::dtype_bytes(call.dtype);
    const auto ranks = static_cast<uint64_t>(world.size());
    const auto range = [&](const void* address, bool used, bool all, const char* what) {
      if (address == nullptr || !used || bytes == 0) return static_cast<std::byte*>(nullptr);
      if (call.memory_kind != RT_MEMORY_DEVICE)
        return static_cast<std::byte*>(const_cast<void*>(address));
      return device->device_range(address, all ? ranks * bytes : bytes, {"a collective", what});
    };
    world.carry_out(
        name, call,
        range(call.send, call.kind != RT_RECEIVE, call.kind == RT_REDUCE_SCATTER, "send"),
        range(call.receive, call.kind != RT_SEND, call.kind == RT_ALL_GATHER, "receive"));
    if (is_mode("lies") && call.memory_kind == RT_MEMORY_DEVICE && call.kind == RT_ALL_REDUCE)
      *range(call.receive, true, false, "receive") ^= std::byte{0xff};
  } catch (const Error& error) {
    failure = error;
  }
  const std::lock_guard lock(work.mutex);
  work.error = failure;
  work.done = true;
}

// Whether what this rank sends overlaps with what it receives.
bool is_in_place(const rt_collective& call, const World& world) {
  if (call.send == nullptr || call.receive == nullptr) return false;
  const uint64_t bytes = call.count * rt::sdk::dtype_bytes(call.dtype);
  const auto all = bytes * static_cast<uint64_t>(world.size());
  const auto send = reinterpret_cast<uintptr_t>(call.send),
             receive = reinterpret_cast<uintptr_t>(call.receive);
  return send < receive + (call.kind == RT_ALL_GATHER ? all : bytes) &&
         receive < send + (call.kind == RT_REDUCE_SCATTER ? all : bytes);
}

class Communicator : public rt::sdk::CommunicatorBase {
 public:
  Communicator(std::shared_ptr<World> world, const backends::simulated::Device* device)
      : world_(std::move(world)), device_(device) {}
  ~Communicator() { world_->abort(); }  // calls that still run would block their stream for ever
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  Work* enqueue(const rt_collective& call);
  std::unique_ptr<Communicator> split(int32_t color, int32_t key, rt::sdk::Deadline) {
    std::shared_ptr<World> part = world_->split(color, key);
    return part ? std::make_unique<Communicator>(part, device_) : nullptr;
  }
  void abort() { world_->abort(); }
  std::optional<Error> failure() {
    try {
      world_->expect_alive();
    } catch (const Error& error) {
      return error;
    }
    return std::nullopt;
  }

 private:
  const std::shared_ptr<World> world_;
  const backends::simulated::Device* const device_;
};

Work* Communicator::enqueue(const rt_collective& call) {
  world_->expect_alive();
  if ((call.memory_kind != RT_MEMORY_DEVICE || call.stream == nullptr) && !reads_both())
    throw Error(RT_ERROR_UNSUPPORTED, "only device memory, on a stream");
  if (is_mode("separate") && is_in_place(call, *world_))
    throw Error(RT_ERROR_UNSUPPORTED, "not in place");
  const auto work = std::make_shared<Work>();
  work->self = work;
  const auto* device = call.stream == nullptr ? device_ : &call.stream->device();
  const auto carry_out = [name = world_->name_of(call), call, world = world_, device, work] {
    run(name, call, *world, device, *work);
  };
  if (call.stream == nullptr) {
    std::thread(carry_out).detach();
  } else {
    call.stream->submit(backends::simulated::CallTask{carry_out});
  }
  return work.get();
}

struct Instance {
  static rt_comm_properties properties() {
    rt_comm_properties p{};
    p.flags = RT_COMM_ABORT_WAKES | RT_COMM_BACKGROUND;
    rt::sdk::copy_text(p.device_plugin, "simulated");
    rt::sdk::copy_text(p.description, "for tests, over the host's key-value store");
    return p;
  }
  static std::vector<rt_comm_capability> capabilities() {
    const uint32_t host = reads_both() ? 1u << RT_MEMORY_PINNED_HOST : 0;
    auto rows = rt::sdk::all_collectives(kDtypes, 1u << RT_MEMORY_DEVICE | host);
    for (rt_comm_capability& row : rows) {
      if (!reads_both()) row.flags |= RT_COMM_ON_STREAM;
      if (row.collective == RT_ALL_TO_ALL) row.dtypes = 0;
      if (is_mode("separate")) row.flags &= ~RT_COMM_IN_PLACE;
    }
    return rows;
  }
  static std::unique_ptr<Communicator> create(const rt_host& host, const rt_comm_options& o) {
    if (o.device == nullptr && !reads_both())
      throw Error(RT_ERROR_UNSUPPORTED, "host memory is not read");
    return std::make_unique<Communicator>(
        std::make_shared<World>(host, std::string(o.prefix), o.rank, o.world_size), o.device);
  }
};

constinit const rt_communicator_api kApi =
    rt::sdk::communicator_table<Instance, Communicator, Work>();

rt::sdk::PluginDescription description() {
  return {.name = "simulated_comm",
          .vendor = "runtime",
          .version = RUNTIME_PLUGIN_VERSION,
          .build_id = "1",
          .description = "collectives on the streams of simulated devices, for tests",
          .communicator = &kApi};
}

}  // namespace
}  // namespace collectives::simulated

rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                          const rt_plugin** plugin, rt_error* error) {
  using collectives::simulated::Instance;
  return rt::sdk::make_plugin<Instance>(collectives::simulated::description, host, negotiation,
                                        plugin, error);
}
