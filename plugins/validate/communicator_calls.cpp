// The checking table rt.communicator: arguments, order and groups of calls, and the buffers of
// works.
#include <algorithm>

#include "plugins/validate/calls.h"
#include "plugins/validate/collective.h"

namespace plugins::validate {
namespace {

const rt_communicator_api& communicators_of(const Object& object) {
  return *object.instance.plain.communicator;
}

Instance& communicator_of(void* self) { return *static_cast<Instance*>(self); }

rt_status properties(void* self, rt_comm_properties* properties, rt_error* error) {
  const Instance& instance = communicator_of(self);
  return instance.plain.communicator->properties(instance.self, properties, error);
}

rt_status capabilities(void* self, rt_comm_capability* rows, uint32_t* count, rt_error* error) {
  const Instance& instance = communicator_of(self);
  return instance.plain.communicator->capabilities(instance.self, rows, count, error);
}

// The object of another plugin that came in a struct.
template <typename T>
T* unwrap(Tracker& tracker, const void* handle, const std::string& where) {
  if (handle == nullptr) return nullptr;
  Object* const object = tracker.find(handle);
  if (object == nullptr || object->kind != T::kKind)
    tracker.findings.fault(
        Offender::kRuntime, where,
        std::string("got no ") + to_string(T::kKind) + " that a plugin of this registry has made");
  expect_alive(*object, where.c_str());
  return static_cast<T*>(object);
}

std::vector<rt_comm_capability> rows_of(Instance& instance, rt_error* error) {
  const rt_communicator_api& api = *instance.plain.communicator;
  uint32_t count = 0;
  require_made(api.capabilities(instance.self, nullptr, &count, error));
  std::vector<rt_comm_capability> rows(count);
  for (rt_comm_capability& row : rows) row.size = RT_COMM_CAPABILITY_SIZE_V1;
  require_made(api.capabilities(instance.self, rows.data(), &count, error));
  rows.resize(std::min<std::size_t>(rows.size(), count));
  return rows;
}

rt_status create(void* self, const rt_comm_options* options, rt_communicator** communicator,
                 rt_error* error) {
  Instance& instance = communicator_of(self);
  return answer(instance.tracker.findings, error, [&] {
    auto object = std::make_unique<CommunicatorObject>(
        Kind::kCommunicator, instance,
        instance.name + " rank " + std::to_string(options->rank) + " of '" + options->prefix + "'");
    object->device = unwrap<DeviceObject>(instance.tracker, options->device,
                                          instance.name + ": create a communicator");
    object->rank = options->rank;
    object->world_size = options->world_size;
    object->rows = rows_of(instance, error);
    rt_comm_options plain = *options;
    plain.device = object->device == nullptr ? nullptr : object->device->plain;
    require(instance.plain.communicator->create(instance.self, &plain, &object->plain, error));
    if (object->plain != nullptr)
      *communicator = static_cast<rt_communicator*>(instance.tracker.adopt(std::move(object)));
    return RT_OK;
  });
}

// A thread that has aborted the communicator knows that it cannot be used; others learn it from the
// plugin.
void expect_not_aborted(const CommunicatorObject& communicator, const char* call) {
  const std::lock_guard lock(communicator.tracker().mutex);
  if (communicator.aborted && communicator.aborter == std::this_thread::get_id())
    communicator.fault(Offender::kRuntime, call, "this thread has aborted the communicator before");
}

// What a plugin must not answer after abort.
void expect_refused(const CommunicatorObject& communicator, bool was_aborted, const char* call) {
  if (!was_aborted) return;
  communicator.fault(Offender::kPlugin, call,
                     "answers RT_OK, although the communicator was aborted before");
}

bool is_aborted(const CommunicatorObject& communicator) {
  const std::lock_guard lock(communicator.tracker().mutex);
  return communicator.aborted;
}

rt_status split(rt_communicator* handle, int32_t color, int32_t key, int64_t timeout_ns,
                rt_communicator** result, rt_error* error) {
  return with<CommunicatorObject>(handle, error, [&](CommunicatorObject& communicator) {
    const Turn turn(communicator, "split");
    expect_not_aborted(communicator, "split");
    auto object = std::make_unique<CommunicatorObject>(
        Kind::kCommunicator, communicator.instance,
        communicator.name + ", colour " + std::to_string(color));
    require(communicators_of(communicator)
                .split(communicator.plain, color, key, timeout_ns, &object->plain, error));
    if (object->plain == nullptr) return;
    object->device = communicator.device;
    object->rows = communicator.rows;
    *result = static_cast<rt_communicator*>(communicator.tracker().adopt(std::move(object)));
  });
}

// The caller holds Tracker::mutex.
void expect_no_works(const CommunicatorObject& communicator) {
  if (communicator.findings().failed()) return;
  for (const auto& [handle, object] : communicator.tracker().objects) {
    if (object->kind != Kind::kWork || !object->alive) continue;
    if (static_cast<const WorkObject&>(*object).communicator != &communicator) continue;
    communicator.fault(Offender::kRuntime, "destroy",
                       "a work of the communicator still lives; free it first");
  }
}

// The caller holds Tracker::mutex.
void land(Tracker& tracker, const Object& work) {
  std::erase_if(tracker.flights, [&](const Flight& flight) { return flight.work == &work; });
}

void destroy(rt_communicator* handle) {
  released<CommunicatorObject>(handle, [](CommunicatorObject& communicator) {
    const Turn turn(communicator, "destroy");
    communicators_of(communicator).destroy(communicator.plain);
    Tracker& tracker = communicator.tracker();
    const std::lock_guard lock(tracker.mutex);
    // Works that were freed before they had completed end with their communicator.
    std::erase_if(tracker.flights,
                  [&](const Flight& flight) { return flight.communicator == &communicator; });
    tracker.bury(communicator);
    expect_no_works(communicator);
  });
}

rt_status group_begin(rt_communicator* handle, rt_error* error) {
  return with<CommunicatorObject>(handle, error, [&](CommunicatorObject& communicator) {
    const Turn turn(communicator, "group_begin");
    expect_not_aborted(communicator, "group_begin");
    if (communicator.open_group)
      communicator.fault(Offender::kRuntime, "group_begin", "a group is open already");
    require(communicators_of(communicator).group_begin(communicator.plain, error));
    communicator.open_group = true;
  });
}

rt_status group_end(rt_communicator* handle, rt_error* error) {
  return with<CommunicatorObject>(handle, error, [&](CommunicatorObject& communicator) {
    const Turn turn(communicator, "group_end");
    if (!communicator.open_group)
      communicator.fault(Offender::kRuntime, "group_end", "no group is open");
    communicator.open_group = false;
    require(communicators_of(communicator).group_end(communicator.plain, error));
  });
}

rt_status enqueue(rt_communicator* handle, const rt_collective* collective, rt_work** work,
                  rt_error* error) {
  return with<CommunicatorObject>(handle, error, [&](CommunicatorObject& communicator) {
    const Turn turn(communicator, "enqueue");
    expect_not_aborted(communicator, "enqueue");
    const bool was_aborted = is_aborted(communicator);
    Tracker& tracker = communicator.tracker();
    auto* const stream =
        unwrap<StreamObject>(tracker, collective->stream, communicator.name + ": enqueue");
    auto object = std::make_unique<WorkObject>(Kind::kWork, communicator.instance,
                                               communicator.name + " work");
    object->communicator = &communicator;
    check_and_keep(communicator, is_on_stream(communicator, *collective) ? stream : nullptr,
                   *collective, object.get());
    rt_collective plain = *collective;
    plain.stream = stream == nullptr ? nullptr : stream->plain;
    const rt_status status =
        communicators_of(communicator).enqueue(communicator.plain, &plain, &object->plain, error);
    if (status != RT_OK || object->plain == nullptr) {
      const std::lock_guard lock(tracker.mutex);
      land(tracker, *object);
    }
    require(status);
    if (object->plain != nullptr) *work = static_cast<rt_work*>(tracker.adopt(std::move(object)));
    expect_refused(communicator, was_aborted, "enqueue");
  });
}

// Polls or waits: `ask` calls the plugin.
template <typename Ask>
rt_status look(rt_work* handle, const char* call, rt_error* error, Ask&& ask) {
  bool pending = false;
  const rt_status status = with<WorkObject>(handle, error, [&](WorkObject& work) {
    expect_alive(work, call);
    const Turn turn(*work.communicator, call);
    if (work.communicator->open_group)
      work.fault(Offender::kRuntime, call, "the group of the collective is open; end it first");
    const rt_status plain = ask(communicators_of(work), work.plain);
    pending = plain == RT_NOT_READY;
    if (pending) return;
    if (plain == RT_ERROR_TIMEOUT) throw Answered{plain, /*refusal=*/true};  // it goes on
    {
      const std::lock_guard lock(work.tracker().mutex);
      land(work.tracker(), work);
    }
    require(plain);
  });
  return pending ? RT_NOT_READY : status;
}

rt_status work_poll(rt_work* handle, rt_error* error) {
  return look(handle, "work_poll", error, [&](const rt_communicator_api& api, rt_work* plain) {
    return api.work_poll(plain, error);
  });
}

rt_status work_wait(rt_work* handle, int64_t timeout_ns, rt_error* error) {
  return look(handle, "work_wait", error, [&](const rt_communicator_api& api, rt_work* plain) {
    return api.work_wait(plain, timeout_ns, error);
  });
}

// A collective that has not completed goes on without its work, so its buffers stay in use.
void work_destroy(rt_work* handle) {
  released<WorkObject>(handle, [](WorkObject& work) {
    expect_alive(work, "work_destroy");
    communicators_of(work).work_destroy(work.plain);
    const std::lock_guard lock(work.tracker().mutex);
    work.tracker().bury(work);
  });
}

rt_status abort(rt_communicator* handle, rt_error* error) {
  return with<CommunicatorObject>(handle, error, [&](CommunicatorObject& communicator) {
    expect_alive(communicator, "abort");
    communicator.findings().set_failed();
    require(communicators_of(communicator).abort(communicator.plain, error));
    const std::lock_guard lock(communicator.tracker().mutex);
    communicator.aborted = true;
    communicator.aborter = std::this_thread::get_id();
  });
}

rt_status asynchronous_error(rt_communicator* handle, rt_error* error) {
  return with<CommunicatorObject>(handle, error, [&](CommunicatorObject& communicator) {
    expect_alive(communicator, "asynchronous_error");
    require(communicators_of(communicator).asynchronous_error(communicator.plain, error));
  });
}

}  // namespace

rt_communicator_api communicator_calls(const rt_communicator_api& plain) {
  rt_communicator_api table = plain;
  table.properties = properties;
  table.capabilities = capabilities;
  table.create = create;
  table.split = split;
  table.destroy = destroy;
  table.group_begin = group_begin;
  table.group_end = group_end;
  table.enqueue = enqueue;
  table.work_poll = work_poll;
  table.work_wait = work_wait;
  table.work_destroy = work_destroy;
  table.abort = abort;
  table.asynchronous_error = asynchronous_error;
  return table;
}

}  // namespace plugins::validate
