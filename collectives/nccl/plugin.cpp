// The plugin `nccl` or `rccl`: ranks with a GPU each, over the library of the vendor. This file
// fills in the tables of C functions of the plugin interface (plugins/include); communicator.h does
// the work.
#include "rt/plugin.h"

#include "communicator.h"
#include "rt/sdk/communicator.h"

using collectives::nccl::Communicator;
using collectives::nccl::Completion;
using collectives::nccl::deadline_in;
using collectives::nccl::kDevicePlugin;
using collectives::nccl::kName;
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
  std::string version;
};

rt_status properties(void*, rt_comm_properties* result, rt_error* error) {
  return guard(error, [&] {
    rt_comm_properties p{};
    p.flags = RT_COMM_ABORT_WAKES | RT_COMM_BACKGROUND;  // collectives run on streams
    rt::sdk::copy_text(p.device_plugin, kDevicePlugin);
    rt::sdk::copy_text(p.description, rt::sdk::format("ranks with a GPU each, over %s", kName));
    p.ranks = RT_RANKS_ANY_PROCESS;
    p.priority = 0;  // "auto" takes it by device_plugin, and never for ranks without such devices
    // Latency and bandwidth stay unknown: they are not measured yet, and a GPU's links differ by
    // far more than those of a host.
    rt::sdk::write_output(result, p);
  });
}

rt_status capabilities(void*, rt_comm_capability* rows, uint32_t* count, rt_error* error) {
  return guard(error, [&] {
    rt::sdk::list_all_collectives(rt::sdk::kAllDtypes, 1u << RT_MEMORY_DEVICE, rows, count);
    for (uint32_t i = 0; rows != nullptr && i < *count; ++i) {
      rows[i].flags |= RT_COMM_ON_STREAM;
      // An all-to-all is made of sends and receives, which in place would read data that other
      // ranks have already overwritten.
      if (rows[i].collective == RT_ALL_TO_ALL) rows[i].flags &= ~RT_COMM_IN_PLACE;
      if (Communicator::is_capturable(rows[i].collective)) rows[i].flags |= RT_COMM_CAPTURABLE;
    }
  });
}

rt_status create(void* self, const rt_comm_options* options, rt_communicator** result,
                 rt_error* error) {
  return guard(error, [&] {
    *result = new rt_communicator{std::make_shared<Communicator>(
        *static_cast<Instance*>(self)->host, rt::sdk::read_input(options))};
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
rt_status group_end(rt_communicator* communicator, rt_error* error) {
  return guard(error, [&] { communicator->it->end_group(); });
}

rt_status enqueue(rt_communicator* communicator, const rt_collective* call, rt_work** work,
                  rt_error* error) {
  return guard(error, [&] {
    *work = new rt_work{communicator->it, communicator->it->enqueue(rt::sdk::read_input(call))};
  });
}

// An rt_work that has outlived its communicator is complete or was aborted.
rt_status work_poll(rt_work* work, rt_error* error) {
  return guard(error, [&] {
    const auto communicator = work->communicator.lock();
    const bool done =
        communicator ? communicator->poll(*work->completion) : work->completion->done();
    return done ? RT_OK : RT_NOT_READY;
  });
}

rt_status work_wait(rt_work* work, int64_t timeout_ns, rt_error* error) {
  return guard(error, [&] {
    if (const auto communicator = work->communicator.lock())
      communicator->wait(*work->completion, timeout_ns);
  });
}

void work_destroy(rt_work* work) { delete work; }

rt_status abort(rt_communicator* communicator, rt_error* error) {
  return guard(error, [&] { communicator->it->abort(); });
}

rt_status asynchronous_error(rt_communicator* communicator, rt_error* error) {
  return guard(error, [&] {
    if (const auto failure = communicator->it->failure()) throw *failure;
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

std::string library_version() {
  int version = 0;
  collectives::nccl::check_nccl(ncclGetVersion(&version), "read the version");
  return rt::sdk::format(RUNTIME_PLUGIN_VERSION " (%s %d.%d.%d)", kName, version / 10000,
                         version / 100 % 100, version % 100);
}

}  // namespace

extern "C" rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                                     const rt_plugin** plugin, rt_error* error) {
  return guard(error, [&] {
    rt::sdk::negotiate(negotiation, kName);
    auto self = std::make_unique<Instance>();
    self->host = host;
    self->version = library_version();
    self->view = {sizeof(rt_plugin),
                  0,
                  self.get(),
                  kName,
                  "runtime",
                  self->version.c_str(),
                  self->version.c_str(),
                  "ranks with a GPU each, joined by the library of its vendor; device memory",
                  rt::sdk::get_communicator_api<kApi>,
                  rt::sdk::no_options,
                  shutdown};
    *plugin = &self.release()->view;
  });
}
