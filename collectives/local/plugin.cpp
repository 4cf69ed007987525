// The plugin `local`: ranks are threads of one process. This file implements the C interface of
// plugins; group.h says how collectives are carried out.
#include "rt/plugin.h"

#include <algorithm>
#include <memory>

#include "collectives/local/call.h"
#include "collectives/local/chunks.h"
#include "collectives/local/hub.h"
#include "rt/communicator.h"
#include "rt/sdk/communicator.h"
#include "rt/sdk/error.h"

using collectives::local::Deadline;
using collectives::local::Group;
using collectives::local::Hub;
using collectives::local::kMaxRanks;
using rt::sdk::Error;
using rt::sdk::guard;

struct rt_communicator {
  rt_communicator(std::shared_ptr<Group> joined, int32_t own_rank)
      : group(std::move(joined)), rank(own_rank) {}
  ~rt_communicator() { group->leave(rank); }
  std::shared_ptr<Group> group;
  int32_t rank;
  int32_t open_groups = 0;
};

namespace {

struct Instance {
  rt_plugin view{};
  Hub hub;
};

Deadline deadline_in(int64_t timeout_ns) {
  constexpr int64_t kLongest = int64_t{365} * 24 * 3600 * 1'000'000'000;  // a year: cannot overflow
  return std::chrono::steady_clock::now() +
         std::chrono::nanoseconds(std::clamp(timeout_ns, int64_t{0}, kLongest));
}

rt_status properties(void*, rt_comm_properties* result, rt_error* error) {
  return guard(error, [&] {
    rt_comm_properties p{};
    p.flags = RT_COMM_ABORT_WAKES;  // not RT_COMM_BACKGROUND: the ranks that wait copy the data
    rt::sdk::copy_text(p.description, "ranks as threads of one process, in shared memory");
    p.ranks = RT_RANKS_THREADS;
    p.priority = 100;
    // A rank wakes another one, and one of them copies the data from memory to memory.
    p.latency_ns = 5'000;
    p.bytes_per_second = 8'000'000'000;
    rt::sdk::write_output(result, p);
  });
}

// Every collective supports every type and reduction, in all memory that the host can access.
rt_status capabilities(void*, rt_comm_capability* rows, uint32_t* count, rt_error* error) {
  return guard(error, [&] {
    rt::sdk::list_all_collectives(
        rt::sdk::kAllDtypes, 1u << RT_MEMORY_PINNED_HOST | 1u << RT_MEMORY_DEVICE, rows, count);
  });
}

rt_status create(void* self, const rt_comm_options* options, rt_communicator** result,
                 rt_error* error) {
  return guard(error, [&] {
    rt::sdk::check_input(options);
    const int32_t rank = options->rank, size = options->world_size;
    if (size < 1 || size > static_cast<int32_t>(kMaxRanks) || rank < 0 || rank >= size) {
      throw Error(RT_ERROR_INVALID_ARGUMENT,
                  rt::sdk::format("local: rank %d of %d; expected 1 to %zu ranks, counted from 0",
                                  rank, size, kMaxRanks));
    }
    *result =
        new rt_communicator(static_cast<Instance*>(self)->hub.join(
                                options->prefix, rank, size, deadline_in(options->timeout_ns)),
                            rank);
  });
}

rt_status split(rt_communicator* parent, int32_t color, int32_t key, int64_t timeout_ns,
                rt_communicator** result, rt_error* error) {
  return guard(error, [&] {
    auto seat = parent->group->split(parent->rank, color, key, deadline_in(timeout_ns));
    *result = seat.group ? new rt_communicator(std::move(seat.group), seat.rank) : nullptr;
  });
}

void destroy(rt_communicator* communicator) { delete communicator; }

// Starting a call never waits for another call, so a group needs no special treatment.
rt_status group_begin(rt_communicator* communicator, rt_error* error) {
  return guard(error, [&] { ++communicator->open_groups; });
}

rt_status group_end(rt_communicator* communicator, rt_error* error) {
  return guard(error, [&] {
    if (communicator->open_groups == 0) {
      throw Error(RT_ERROR_INVALID_ARGUMENT, "local: group_end without group_begin");
    }
    --communicator->open_groups;
  });
}

rt_status enqueue(rt_communicator* communicator, const rt_collective* given, rt_work** work,
                  rt_error* error) {
  return guard(error, [&] {
    const rt_collective call = rt::sdk::read_input(given);
    collectives::local::check_call(call, communicator->rank, communicator->group->size());
    *work = &communicator->group->enter(communicator->rank, call);
  });
}

rt_status work_poll(rt_work* work, rt_error* error) {
  return guard(error, [&] { return work->group->poll(*work) ? RT_OK : RT_NOT_READY; });
}

rt_status work_wait(rt_work* work, int64_t timeout_ns, rt_error* error) {
  return guard(error, [&] { work->group->wait(*work, deadline_in(timeout_ns)); });
}

void work_destroy(rt_work* work) { work->group->release(*work); }

rt_status abort(rt_communicator* communicator, rt_error* error) {
  return guard(error, [&] { communicator->group->abort(); });
}

rt_status asynchronous_error(rt_communicator* communicator, rt_error* error) {
  return guard(error, [&] { communicator->group->throw_if_broken(); });
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

rt_status rt_plugin_entry(const rt_host*, rt_negotiation* negotiation, const rt_plugin** plugin,
                          rt_error* error) {
  return guard(error, [&] {
    rt::sdk::negotiate(negotiation, "local");
    auto* self = new Instance;
    self->view = {sizeof(rt_plugin),
                  0,
                  self,
                  "local",
                  "runtime",
                  RUNTIME_PLUGIN_VERSION,
                  "1",
                  "ranks as threads of one process",
                  rt::sdk::get_communicator_api<kApi>,
                  rt::sdk::no_options,
                  shutdown};
    *plugin = &self->view;
  });
}
