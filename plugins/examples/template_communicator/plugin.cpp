// The entry and the table of C functions.
#include "rt/sdk/plugin.h"

#include "communicator.h"
#include "rt/sdk/communicator.h"

using rt::sdk::Error;
using rt::sdk::guard;
using template_communicator::Clock;

namespace {

struct Instance {
  rt_plugin view{};
  const rt_host* host = nullptr;
};

rt_status properties(void*, rt_comm_properties* result, rt_error* error) {
  return guard(error, [&] {
    rt_comm_properties value{};
    value.flags = RT_COMM_ABORT_WAKES | RT_COMM_BACKGROUND;
    rt::sdk::copy_text(value.description, "every message through the job's key-value store");
    value.ranks = RT_RANKS_ANY_PROCESS;
    value.priority = 0;  // comm.backend = "auto" never takes it
    rt::sdk::write_output(result, value);
  });
}

// Every collective that only moves elements moves those of any type.
rt_status capabilities(void*, rt_comm_capability* rows, uint32_t* count, rt_error* error) {
  return guard(error, [&] {
    constexpr uint32_t kHostMemory = 1u << RT_MEMORY_PINNED_HOST;
    rt::sdk::list_all_collectives(rt::sdk::kAllDtypes, kHostMemory, rows, count);
    for (uint32_t i = 0; rows != nullptr && i < *count; ++i) {
      rt_comm_capability& row = *reinterpret_cast<rt_comm_capability*>(
          reinterpret_cast<char*>(rows) + size_t{i} * rows->size);
      if (template_communicator::reduces(row.collective))
        row.dtypes = template_communicator::kReducedTypes;
    }
  });
}

rt_status create(void* self, const rt_comm_options* given, rt_communicator** result,
                 rt_error* error) {
  return guard(error, [&] {
    const rt_comm_options options = rt::sdk::read_input(given);
    if (options.rank < 0 || options.rank >= options.world_size) {
      throw Error(RT_ERROR_INVALID_ARGUMENT,
                  rt::sdk::format("rank %d of %d", options.rank, options.world_size));
    }
    auto made = std::make_unique<rt_communicator>(
        *static_cast<Instance*>(self)->host, options.prefix,
        template_communicator::Place{options.rank, options.world_size});
    made->meet(std::chrono::nanoseconds(options.timeout_ns));
    *result = made.release();
  });
}

rt_status split(rt_communicator* parent, int32_t color, int32_t key, int64_t timeout_ns,
                rt_communicator** result, rt_error* error) {
  return guard(error, [&] {
    *result = parent->split(color, key, std::chrono::nanoseconds(timeout_ns)).release();
  });
}

// Collectives never wait for one another to start, so a group has nothing to do.
rt_status group_begin(rt_communicator*, rt_error*) { return RT_OK; }
rt_status group_end(rt_communicator*, rt_error*) { return RT_OK; }

rt_status enqueue(rt_communicator* communicator, const rt_collective* given, rt_work** work,
                  rt_error* error) {
  return guard(error,
               [&] { *work = new rt_work{communicator->start(rt::sdk::read_input(given))}; });
}

rt_status work_poll(rt_work* work, rt_error* error) {
  return guard(error, [&] { return work->call->wait(Clock::now()) ? RT_OK : RT_NOT_READY; });
}

rt_status work_wait(rt_work* work, int64_t timeout_ns, rt_error* error) {
  return guard(error, [&] {
    if (!work->call->wait(Clock::now() + std::chrono::nanoseconds(timeout_ns)))
      throw Error(RT_ERROR_TIMEOUT, "not all ranks came to the collective in time");
  });
}

rt_status abort(rt_communicator* communicator, rt_error* error) {
  return guard(error, [&] { communicator->abort(); });
}

rt_status asynchronous_error(rt_communicator* communicator, rt_error* error) {
  return guard(error, [&] {
    if (communicator->aborted())
      throw Error(RT_ERROR_ABORTED, "the communicator was aborted", RT_SCOPE_COMMUNICATOR);
  });
}

constexpr rt_communicator_api kApi = {sizeof(rt_communicator_api),
                                      RT_COMMUNICATOR_API_VERSION,
                                      properties,
                                      capabilities,
                                      create,
                                      split,
                                      [](rt_communicator* communicator) { delete communicator; },
                                      group_begin,
                                      group_end,
                                      enqueue,
                                      work_poll,
                                      work_wait,
                                      [](rt_work* work) { delete work; },
                                      abort,
                                      asynchronous_error};

void shutdown(void* self) { delete static_cast<Instance*>(self); }

}  // namespace

extern "C" rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                                     const rt_plugin** plugin, rt_error* error) {
  return guard(error, [&] {
    rt::sdk::negotiate(negotiation, "template_communicator");
    auto* self = new Instance;
    self->host = host;
    self->view.size = sizeof(rt_plugin);
    self->view.self = self;
    self->view.name = "template_communicator";  // selected by comm.backend
    self->view.vendor = "your name";
    self->view.version = RUNTIME_PLUGIN_VERSION;
    self->view.build_id = "template_communicator-" RUNTIME_PLUGIN_VERSION;
    self->view.description = "a communicator to start from";
    self->view.get_interface = rt::sdk::get_communicator_api<kApi>;
    self->view.options = rt::sdk::no_options;
    self->view.shutdown = shutdown;
    *plugin = &self->view;
  });
}
