// The plugin "fake": a communicator whose ranks are threads of one process. It proves that the
// table can be implemented, and makes calls fail on purpose for the tests of the host side.
#include "rt/plugin.h"

#include <cstring>
#include <memory>

#include "hub.h"
#include "rt/sdk/communicator.h"
#include "rt/sdk/error.h"

using fake::Deadline;
using fake::Hub;
using fake::Meeting;
using rt::sdk::Error;
using rt::sdk::guard;
using Clock = std::chrono::steady_clock;

struct rt_communicator {
  std::shared_ptr<Hub> hub;
  int32_t rank = 0;
  int32_t open_groups = 0;
  uint64_t splits = 0;
};

struct rt_work {
  std::shared_ptr<Hub> hub;
  std::shared_ptr<Meeting> meeting;
};

namespace {

struct Instance {
  rt_plugin view{};
  const rt_host* host = nullptr;
};

Deadline deadline_in(int64_t timeout_ns) {
  return Clock::now() + std::chrono::nanoseconds(timeout_ns);
}

rt_status properties(void*, rt_comm_properties* result, rt_error* error) {
  return guard(error, [&] {
    rt_comm_properties p{};
    p.flags = RT_COMM_ABORT_WAKES;
    rt::sdk::copy_text(p.description, "ranks as threads of one process, for tests");
    p.ranks = RT_RANKS_THREADS;
    rt::sdk::write_output(result, p);
  });
}

rt_status capabilities(void*, rt_comm_capability* rows, uint32_t* count, rt_error* error) {
  return guard(error, [&] {
    rt::sdk::list_all_collectives(RT_DTYPE_BIT(RT_FLOAT32) | RT_DTYPE_BIT(RT_FLOAT64) |
                                      RT_DTYPE_BIT(RT_INT32) | RT_DTYPE_BIT(RT_INT64),
                                  1u << RT_MEMORY_PINNED_HOST, rows, count);
  });
}

// Each rank sets a key in the host's key-value store and waits for the keys of the others.
void meet_all(const rt_host& host, const rt_comm_options& options) {
  const Deadline deadline = deadline_in(options.timeout_ns);
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

rt_status create(void* self, const rt_comm_options* options, rt_communicator** result,
                 rt_error* error) {
  return guard(error, [&] {
    rt::sdk::check_input(options);
#ifdef FIRST_RELEASE  // whose rt_comm_options ended here
    const auto* bytes = reinterpret_cast<const unsigned char*>(options);
    if (std::any_of(bytes + RT_COMM_OPTIONS_SIZE_V1, bytes + options->size,
                    [](unsigned char b) { return b != 0; }))
      throw Error(RT_ERROR_TOO_NEW, "rt_comm_options uses a field that is not known");
#endif
    const rt_host& host = *static_cast<Instance*>(self)->host;
    if (host.kv_set == nullptr || host.kv_get == nullptr) {
      throw Error(RT_ERROR_UNAVAILABLE, "the host offers no key-value store to meet in");
    }
    if (options->rank < 0 || options->rank >= options->world_size) {
      throw Error(RT_ERROR_INVALID_ARGUMENT,
                  rt::sdk::format("rank %d of %d", options->rank, options->world_size));
    }
    auto hub = fake::find_hub(options->prefix, options->world_size);
    meet_all(host, *options);
    *result = new rt_communicator{std::move(hub), options->rank};
  });
}

// Ranks exchange colour and key; then each computes its own group and rank.
rt_status split(rt_communicator* parent, int32_t color, int32_t key, int64_t timeout_ns,
                rt_communicator** result, rt_error* error) {
  return guard(error, [&] {
    const auto size = static_cast<std::size_t>(parent->hub->world_size());
    const int32_t mine[2] = {color, key};
    std::vector<int32_t> all(2 * size);
    rt_collective call{};
    call.kind = RT_ALL_GATHER;
    call.dtype = RT_INT32;
    call.send = mine;
    call.receive = all.data();
    call.count = 2;
    call.peer = -1;
    if (!parent->hub->wait(parent->hub->enter(parent->rank, call), deadline_in(timeout_ns))) {
      parent->hub->abort();  // other ranks may still arrive and would write into `all`
      throw Error(RT_ERROR_TIMEOUT, "not all ranks came to the split", RT_SCOPE_COMMUNICATOR);
    }
    const uint64_t number = parent->splits++;
    *result = nullptr;
    if (color < 0) return;
    int32_t members = 0, before = 0;
    for (std::size_t rank = 0; rank < size; ++rank) {
      if (all[2 * rank] != color) continue;
      ++members;
      const auto place = std::pair(all[2 * rank + 1], static_cast<int32_t>(rank));
      if (place < std::pair(key, parent->rank)) ++before;
    }
    const std::string name =
        parent->hub->name() + "/split" + std::to_string(number) + "/" + std::to_string(color);
    *result = new rt_communicator{fake::find_hub(name, members), before};
  });
}

void destroy(rt_communicator* communicator) { delete communicator; }

rt_status group_begin(rt_communicator* communicator, rt_error* error) {
  return guard(error, [&] { ++communicator->open_groups; });
}

// No call waits for another one, so a group has nothing to delay.
rt_status group_end(rt_communicator* communicator, rt_error* error) {
  return guard(error, [&] {
    if (communicator->open_groups == 0) {
      throw Error(RT_ERROR_INVALID_ARGUMENT, "group_end without group_begin");
    }
    --communicator->open_groups;
  });
}

rt_status enqueue(rt_communicator* communicator, const rt_collective* given, rt_work** work,
                  rt_error* error) {
  return guard(error, [&] {
    const rt_collective call = rt::sdk::read_input(given);
    if (call.stream != nullptr) {
      throw Error(RT_ERROR_UNSUPPORTED,
                  "a stream was given; this plugin works on host memory only");
    }
    const bool has_peer = call.kind == RT_BROADCAST || call.kind == RT_REDUCE ||
                          call.kind == RT_SEND || call.kind == RT_RECEIVE;
    if (call.kind < RT_ALL_REDUCE || call.kind > RT_BARRIER ||
        (has_peer && (call.peer < 0 || call.peer >= communicator->hub->world_size()))) {
      throw Error(RT_ERROR_INVALID_ARGUMENT,
                  rt::sdk::format("collective %d with peer %d", call.kind, call.peer));
    }
    *work = new rt_work{communicator->hub, communicator->hub->enter(communicator->rank, call)};
  });
}

rt_status work_poll(rt_work* work, rt_error* error) {
  return guard(error,
               [&] { return work->hub->wait(work->meeting, Clock::now()) ? RT_OK : RT_NOT_READY; });
}

rt_status work_wait(rt_work* work, int64_t timeout_ns, rt_error* error) {
  return guard(error, [&] {
    if (!work->hub->wait(work->meeting, deadline_in(timeout_ns))) {
      throw Error(RT_ERROR_TIMEOUT, "not all ranks came to the collective in time");
    }
  });
}

void work_destroy(rt_work* work) { delete work; }

rt_status abort(rt_communicator* communicator, rt_error* error) {
  return guard(error, [&] { communicator->hub->abort(); });
}

rt_status asynchronous_error(rt_communicator* communicator, rt_error* error) {
  return guard(error, [&] {
    if (communicator->hub->aborted()) {
      throw Error(RT_ERROR_ABORTED, "the communicator was aborted", RT_SCOPE_COMMUNICATOR);
    }
  });
}

constexpr rt_communicator_api kApi = {sizeof(rt_communicator_api),
                                      RT_COMMUNICATOR_API_VERSION,
                                      properties,
                                      capabilities,
                                      create,
                                      split,
                                      destroy,
                                      group_begin,
                                      group_end,
                                      enqueue,
                                      work_poll,
                                      work_wait,
                                      work_destroy,
                                      abort,
                                      asynchronous_error};

void shutdown(void* self) { delete static_cast<Instance*>(self); }

}  // namespace

extern "C" rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                                     const rt_plugin** plugin, rt_error* error) {
  return guard(error, [&] {
    rt::sdk::negotiate(negotiation, "fake");
#ifdef FIRST_RELEASE
    negotiation->plugin_minor = 0;
#endif
    auto* self = new Instance;
    self->host = host;
    self->view = {sizeof(rt_plugin),
                  0,
                  self,
                  "fake",
                  "the runtime's tests",
                  "1",
                  "1",
                  "ranks as threads of one process",
                  rt::sdk::get_communicator_api<kApi>,
                  rt::sdk::no_options,
                  shutdown};
    *plugin = &self->view;
  });
}
