// The table rt.communicator made from C++ classes: the slots are their methods, with exceptions
// turned into statuses.
#ifndef RT_SDK_COMMUNICATOR_TABLE_H_
#define RT_SDK_COMMUNICATOR_TABLE_H_

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "rt/sdk/communicator.h"
#include "rt/sdk/plugin.h"
#include "rt/sdk/structs.h"

namespace rt::sdk {

// What the table counts of a communicator, whose class derives from it.
struct CommunicatorBase {
  int32_t open_groups = 0;  // groups that were begun and not ended
};

// The object behind a handle that the table has given out: an rt_communicator or an rt_work.
template <typename Object, typename Handle>
Object& object_of(Handle* handle) {
  return *reinterpret_cast<Object*>(handle);
}

// Fills the slots that join, split and group.
template <typename State, typename Communicator>
constexpr void add_communicator_slots(rt_communicator_api& t) {
  t.create = [](void* self, const rt_comm_options* options, rt_communicator** result,
                rt_error* error) {
    return guard(error, [&] {
      auto& instance = *static_cast<PluginInstance<State>*>(self);
      std::unique_ptr<Communicator> made =
          instance.state.create(*instance.host, read_input(options));
      *result = reinterpret_cast<rt_communicator*>(made.release());
    });
  };
  t.split = [](rt_communicator* parent, int32_t color, int32_t key, int64_t timeout_ns,
               rt_communicator** result, rt_error* error) {
    return guard(error, [&] {
      std::unique_ptr<Communicator> part =
          object_of<Communicator>(parent).split(color, key, deadline_in(timeout_ns));
      *result = reinterpret_cast<rt_communicator*>(part.release());
    });
  };
  t.destroy = [](rt_communicator* handle) { delete &object_of<Communicator>(handle); };
  t.group_begin = [](rt_communicator* handle, rt_error* error) {
    return guard(error, [&] {
      auto& communicator = object_of<Communicator>(handle);
      if constexpr (requires { communicator.begin_group(); }) communicator.begin_group();
      ++communicator.open_groups;
    });
  };
  t.group_end = [](rt_communicator* handle, rt_error* error) {
    return guard(error, [&] {
      auto& communicator = object_of<Communicator>(handle);
      if (communicator.open_groups == 0)
        throw Error(RT_ERROR_INVALID_ARGUMENT, "group_end without group_begin");
      --communicator.open_groups;
      if constexpr (requires { communicator.end_group(); }) {
        if (communicator.open_groups == 0) communicator.end_group();
      }
    });
  };
  t.abort = [](rt_communicator* handle, rt_error* error) {
    return guard(error, [&] { object_of<Communicator>(handle).abort(); });
  };
  t.asynchronous_error = [](rt_communicator* handle, rt_error* error) {
    return guard(error, [&] {
      if (const auto failure = object_of<Communicator>(handle).failure()) throw Error(*failure);
    });
  };
}

// Makes the table of a plugin whose instance is a PluginInstance<State> (rt/sdk/plugin.h). All
// methods may throw but destructors and release(). The plugin defines
//   State: rt_comm_properties properties(); std::vector<rt_comm_capability> capabilities();
//     std::unique_ptr<Communicator> create(const rt_host&, const rt_comm_options&), whose options
//     are a copy in which fields that the host does not know are zero.
//   Communicator, derived from CommunicatorBase: Work* enqueue(const rt_collective&);
//     std::unique_ptr<Communicator> split(int32_t color, int32_t key, Deadline), nullptr for a
//     negative colour; void abort(); std::optional<Error> failure(), an error found outside a call;
//     both of any thread. Where the calls of a group must wait for its end, void begin_group(),
//     called at each begin, and void end_group(), at the outermost end.
//   Work: bool poll(): whether the collective has completed; throws its error; void wait(Deadline),
//     which throws Error (RT_ERROR_TIMEOUT) if it has not by then. Its destructor leaves a
//     collective to go on; a Work that something else owns has void release(), called instead.
template <typename State, typename Communicator, typename Work>
constexpr rt_communicator_api communicator_table() {
  rt_communicator_api t{};
  t.size = sizeof(t);
  t.version = RT_COMMUNICATOR_API_VERSION;
  t.properties = [](void* self, rt_comm_properties* result, rt_error* error) {
    return guard(error, [&] { write_output(result, state_of<State>(self).properties()); });
  };
  t.capabilities = [](void* self, rt_comm_capability* rows, uint32_t* count, rt_error* error) {
    return guard(error, [&] {
      const std::vector<rt_comm_capability> all = state_of<State>(self).capabilities();
      const auto known = static_cast<uint32_t>(all.size());
      *count = rows == nullptr ? known : std::min(*count, known);
      for (uint32_t i = 0; rows != nullptr && i < *count; ++i) write_element(rows, i, all[i]);
    });
  };
  add_communicator_slots<State, Communicator>(t);
  t.enqueue = [](rt_communicator* handle, const rt_collective* collective, rt_work** work,
                 rt_error* error) {
    return guard(error, [&] {
      Work* const started = object_of<Communicator>(handle).enqueue(read_input(collective));
      *work = reinterpret_cast<rt_work*>(started);
    });
  };
  t.work_poll = [](rt_work* work, rt_error* error) {
    return guard(error, [&] { return object_of<Work>(work).poll() ? RT_OK : RT_NOT_READY; });
  };
  t.work_wait = [](rt_work* work, int64_t timeout_ns, rt_error* error) {
    return guard(error, [&] { object_of<Work>(work).wait(deadline_in(timeout_ns)); });
  };
  t.work_destroy = [](rt_work* handle) {
    auto& work = object_of<Work>(handle);
    if constexpr (requires { work.release(); }) {
      work.release();
    } else {
      delete &work;
    }
  };
  return t;
}

}  // namespace rt::sdk

#endif  // RT_SDK_COMMUNICATOR_TABLE_H_
