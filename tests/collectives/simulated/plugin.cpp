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
#include "rt/sdk/communicator.h"
#include "rt/sdk/operation.h"
#include "tests/collectives/simulated/world.h"

using collectives::simulated::World;
using rt::sdk::Error;
using rt::sdk::guard;

struct rt_communicator {
  std::shared_ptr<World> world;
  const backends::simulated::Device* device;
};

struct rt_work {
  std::mutex mutex;
  bool done = false;
  std::optional<Error> error;
  std::shared_ptr<rt_work> self;  // keeps the work alive until it is destroyed and has run
};

namespace {

struct Instance {
  rt_plugin view{};
  const rt_host* host = nullptr;
};

bool is_mode(const char* mode) {
  const char* set = std::getenv("SIMULATED_COMM");
  return set != nullptr && std::string(set).find(mode) != std::string::npos;
}
bool reads_both() { return is_mode("both") || is_mode("lies"); }

constexpr uint64_t kDtypes =
    RT_DTYPE_BIT(RT_FLOAT32) | RT_DTYPE_BIT(RT_FLOAT64) | RT_DTYPE_BIT(RT_UINT8);

rt_status properties(void*, rt_comm_properties* result, rt_error* error) {
  return guard(error, [&] {
    rt_comm_properties p{};
    p.flags = RT_COMM_ABORT_WAKES | RT_COMM_BACKGROUND;
    rt::sdk::copy_text(p.device_plugin, "simulated");
    rt::sdk::copy_text(p.description, "for tests, over the host's key-value store");
    rt::sdk::write_output(result, p);
  });
}

rt_status capabilities(void*, rt_comm_capability* rows, uint32_t* count, rt_error* error) {
  return guard(error, [&] {
    const uint32_t host = reads_both() ? 1u << RT_MEMORY_PINNED_HOST : 0;
    rt::sdk::list_all_collectives(kDtypes, 1u << RT_MEMORY_DEVICE | host, rows, count);
    for (uint32_t i = 0; rows != nullptr && i < *count; ++i) {
      if (!reads_both()) rows[i].flags |= RT_COMM_ON_STREAM;
      if (rows[i].collective == RT_ALL_TO_ALL) rows[i].dtypes = 0;
      if (is_mode("separate")) rows[i].flags &= ~RT_COMM_IN_PLACE;
    }
  });
}

rt_status create(void* self, const rt_comm_options* o, rt_communicator** result, rt_error* error) {
  return guard(error, [&] {
    rt::sdk::check_input(o);
    if (o->device == nullptr && !reads_both())
      throw Error(RT_ERROR_UNSUPPORTED, "host memory is not read");
    *result =
        new rt_communicator{std::make_shared<World>(*static_cast<Instance*>(self)->host,
                                                    std::string(o->prefix), o->rank, o->world_size),
                            o->device};
  });
}

rt_status split(rt_communicator* parent, int32_t color, int32_t key, int64_t,
                rt_communicator** result, rt_error* error) {
  return guard(error, [&] {
    std::shared_ptr<World> part = parent->world->split(color, key);
    *result = part ? new rt_communicator{part, parent->device} : nullptr;
  });
}

void destroy(rt_communicator* communicator) {
  communicator->world->abort();  // calls that still run would block their stream for ever
  delete communicator;
}

rt_status group(rt_communicator*, rt_error*) { return RT_OK; }

void run(const std::string& name, const rt_collective& call, const World& world,
         const backends::simulated::Device* device, rt_work& work) {
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

rt_status enqueue(rt_communicator* communicator, const rt_collective* given, rt_work** result,
                  rt_error* error) {
  return guard(error, [&] {
    const rt_collective call = rt::sdk::read_input(given);
    const std::shared_ptr<World> world = communicator->world;
    world->expect_alive();
    if ((call.memory_kind != RT_MEMORY_DEVICE || call.stream == nullptr) && !reads_both())
      throw Error(RT_ERROR_UNSUPPORTED, "only device memory, on a stream");
    if (is_mode("separate") && is_in_place(call, *world))
      throw Error(RT_ERROR_UNSUPPORTED, "not in place");
    const auto work = std::make_shared<rt_work>();
    work->self = work;
    const auto* device = call.stream == nullptr ? communicator->device : &call.stream->device();
    const auto carry_out = [name = world->name_of(call), call, world, device, work] {
      run(name, call, *world, device, *work);
    };
    if (call.stream == nullptr) {
      std::thread(carry_out).detach();
    } else {
      call.stream->submit(backends::simulated::CallTask{carry_out});
    }
    *result = work.get();
  });
}

rt_status work_poll(rt_work* work, rt_error* error) {
  return guard(error, [&] {
    const std::lock_guard lock(work->mutex);
    if (work->error) throw Error(*work->error);
    return work->done ? RT_OK : RT_NOT_READY;
  });
}

rt_status work_wait(rt_work* work, int64_t timeout_ns, rt_error* error) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout_ns);
  for (;;) {
    if (const rt_status status = work_poll(work, error); status != RT_NOT_READY) return status;
    if (std::chrono::steady_clock::now() > deadline)
      return guard(error, [] { throw Error(RT_ERROR_TIMEOUT, "not complete in time"); });
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void work_destroy(rt_work* work) { std::shared_ptr<rt_work>(std::move(work->self)).reset(); }

rt_status abort(rt_communicator* communicator, rt_error*) {
  communicator->world->abort();
  return RT_OK;
}

rt_status asynchronous_error(rt_communicator* communicator, rt_error* error) {
  return guard(error, [&] { communicator->world->expect_alive(); });
}

constexpr rt_communicator_api kApi = {sizeof(rt_communicator_api),
                                      RT_COMMUNICATOR_API_VERSION,
                                      properties,
                                      capabilities,
                                      create,
                                      split,
                                      destroy,
                                      group,
                                      group,
                                      enqueue,
                                      work_poll,
                                      work_wait,
                                      work_destroy,
                                      abort,
                                      asynchronous_error};

void shutdown(void* self) { delete static_cast<Instance*>(self); }

}  // namespace

rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                          const rt_plugin** plugin, rt_error* error) {
  return guard(error, [&] {
    rt::sdk::negotiate(negotiation, "simulated_comm");
    auto* self = new Instance;
    self->host = host;
    self->view = {sizeof(rt_plugin),
                  0,
                  self,
                  "simulated_comm",
                  "runtime",
                  RUNTIME_PLUGIN_VERSION,
                  "1",
                  "collectives on the streams of simulated devices, for tests",
                  rt::sdk::get_communicator_api<kApi>,
                  rt::sdk::no_options,
                  shutdown};
    *plugin = &self->view;
  });
}
