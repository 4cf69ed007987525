// The plugin `gloo`: ranks are processes joined by TCP, over the Gloo library. This file fills in
// the tables of C functions of the plugin interface (plugins/include); communicator.h does the
// work.
#include "rt/plugin.h"

#include <iterator>
#include <memory>
#include <numeric>

#include "collectives/shared_memory/option.h"
#include "communicator.h"
#include "rt/sdk/communicator.h"
#include "rt/sdk/error.h"

using collectives::gloo::Communicator;
using collectives::gloo::Completion;
using collectives::gloo::Deadline;
using collectives::gloo::deadline_in;
using rt::sdk::Error;
using rt::sdk::guard;

struct rt_communicator {
  std::shared_ptr<Communicator> it;
};

struct rt_work {
  std::weak_ptr<Communicator> communicator;
  std::shared_ptr<Completion> completion;
};

namespace {

struct Instance {
  rt_plugin view{};
  const rt_host* host = nullptr;
};

constexpr const rt_option_spec* kOptions[] = {&collectives::shared_memory::kOption};

rt_status properties(void*, rt_comm_properties* result, rt_error* error) {
  return guard(error, [&] {
    rt_comm_properties p{};
    // Threads of the communicator do the transfers.
    p.flags = RT_COMM_ABORT_WAKES | RT_COMM_BACKGROUND;
    rt::sdk::copy_text(p.description, "ranks as processes joined by TCP (Gloo)");
    p.ranks = RT_RANKS_ANY_PROCESS;
    p.priority = 200;  // any launcher will do
    // On one machine: small all-reduces go through shared memory at 8 GB/s, and the kernel copies
    // large messages at 4.
    p.latency_ns = 5'000;
    p.bytes_per_second = 4'000'000'000;
    rt::sdk::write_output(result, p);
  });
}

rt_status capabilities(void*, rt_comm_capability* rows, uint32_t* count, rt_error* error) {
  return guard(error, [&] {
    rt::sdk::list_all_collectives(rt::sdk::kAllDtypes, 1u << RT_MEMORY_PINNED_HOST, rows, count);
  });
}

rt_status create(void* self, const rt_comm_options* options, rt_communicator** result,
                 rt_error* error) {
  return guard(error, [&] {
    rt::sdk::check_input(options);
    const auto deadline = deadline_in(options->timeout_ns);
    const rt_host& host = *static_cast<Instance*>(self)->host;
    if (host.kv_set == nullptr || host.kv_get == nullptr) {
      throw Error(RT_ERROR_UNAVAILABLE, "the host offers no key-value store to meet in");
    }
    if (options->rank < 0 || options->rank >= options->world_size) {
      throw Error(RT_ERROR_INVALID_ARGUMENT,
                  rt::sdk::format("rank %d of %d", options->rank, options->world_size));
    }
    std::vector<int> names(static_cast<std::size_t>(options->world_size));
    std::iota(names.begin(), names.end(), 0);
    *result = new rt_communicator{std::make_unique<Communicator>(
        host,
        collectives::gloo::Membership{options->rank, options->world_size, options->prefix,
                                      collectives::shared_memory::is_on(*options)},
        std::move(names),
        collectives::gloo::open_device(options->interface == nullptr ? "" : options->interface),
        deadline)};
  });
}

rt_status split(rt_communicator* parent, int32_t color, int32_t key, int64_t timeout_ns,
                rt_communicator** result, rt_error* error) {
  return guard(error, [&] {
    auto part = parent->it->split(color, key, deadline_in(timeout_ns));
    *result = part ? new rt_communicator{std::move(part)} : nullptr;
  });
}

void destroy(rt_communicator* communicator) { delete communicator; }

rt_status group_begin(rt_communicator* communicator, rt_error* error) {
  return guard(error, [&] { communicator->it->begin_group(); });
}

// Starting a send or receive never waits for another call, so a group needs no special treatment.
rt_status group_end(rt_communicator* communicator, rt_error* error) {
  return guard(error, [&] { communicator->it->end_group(); });
}

rt_status enqueue(rt_communicator* communicator, const rt_collective* call, rt_work** work,
                  rt_error* error) {
  return guard(error, [&] {
    *work = new rt_work{communicator->it, communicator->it->enqueue(rt::sdk::read_input(call))};
  });
}

rt_status work_poll(rt_work* work, rt_error* error) {
  return guard(error, [&] {
    const auto communicator = work->communicator.lock();
    const bool done = communicator ? communicator->poll(*work->completion)
                                   : work->completion->wait(Deadline::min());
    return done ? RT_OK : RT_NOT_READY;
  });
}

rt_status work_wait(rt_work* work, int64_t timeout_ns, rt_error* error) {
  return guard(error, [&] {
    const auto communicator = work->communicator.lock();
    if (communicator) {
      communicator->wait(*work->completion, std::chrono::nanoseconds(timeout_ns));
    } else if (!work->completion->wait(Deadline::min())) {
      throw Error(RT_ERROR_ABORTED, "the communicator was destroyed", RT_SCOPE_COMMUNICATOR);
    }
  });
}

void work_destroy(rt_work* work) {
  try {
    if (const auto communicator = work->communicator.lock())
      communicator->release(work->completion);
  } catch (
      const std::exception&) {  // no thread can be started: destroying the communicator ends it
  }
  delete work;
}

rt_status abort(rt_communicator* communicator, rt_error* error) {
  return guard(error, [&] { communicator->it->abort(); });
}

rt_status asynchronous_error(rt_communicator* communicator, rt_error* error) {
  return guard(error, [&] {
    if (const auto failure = communicator->it->failure()) throw *failure;
  });
}

const rt_option_spec* const* list_options(void*, uint32_t* count) {
  *count = std::size(kOptions);
  return kOptions;
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
    rt::sdk::negotiate(negotiation, "gloo");
    auto* self = new Instance;
    self->host = host;
    self->view = {sizeof(rt_plugin),
                  0,
                  self,
                  "gloo",
                  "runtime",
                  RUNTIME_PLUGIN_VERSION,
                  "1",
                  "ranks as processes joined by TCP, over Gloo; host memory",
                  rt::sdk::get_communicator_api<kApi>,
                  list_options,
                  shutdown};
    *plugin = &self->view;
  });
}
