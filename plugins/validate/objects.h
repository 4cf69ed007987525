// The objects of the device, kernel and capture tables, as the checking tables keep them.
#ifndef PLUGINS_VALIDATE_OBJECTS_H_
#define PLUGINS_VALIDATE_OBJECTS_H_

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "plugins/validate/tracker.h"

namespace plugins::validate {

using SteadyTime = std::chrono::steady_clock::time_point;

// An allocation of the host. Guard bytes lie in front of it, from `base` on, and directly behind.
struct Block {
  void* base = nullptr;
  Range range;
  int32_t kind = RT_MEMORY_DEVICE;
};

struct DeviceObject : Object {
  static constexpr Kind kKind = Kind::kDevice;
  using Object::Object;
  const rt_device_api& api() const { return *instance.plain.device; }
  bool is_inline() const { return (properties.flags & RT_DEVICE_INLINE) != 0; }

  rt_device* plain = nullptr;
  rt_device_properties properties{};
  // Serializes allocate, free and the reading of guards. Locked before Tracker::mutex.
  std::mutex memory_mutex;
  rt_stream* service = nullptr;  // of the plugin; reads and writes guards
  // The most bytes of one buffer.
  uint64_t largest_buffer() const {
    const bool told = properties.size >= sizeof(properties) && properties.largest_buffer > 0;
    return told ? properties.largest_buffer : UINT64_MAX;
  }

  uint64_t own_bytes = 0;             // of validation in device memory; guarded by memory_mutex
  std::map<uintptr_t, Block> blocks;  // by address; changed with both mutexes locked
  std::deque<Block> freed;            // of late; guarded by Tracker::mutex, as the rest
  History history;
  int captures = 0;  // streams whose work is recorded now
};

// What is recorded between `begin` and `end` of a capture.
struct Capture {
  struct Access {
    Range range;
    bool writes = false;
    std::shared_ptr<const std::string> what;
  };
  std::vector<Access> accesses;
  std::thread::id thread;
};

// What is made from a device.
struct DevicePart : Object {
  using Object::Object;
  const rt_device_api& api() const { return device->api(); }
  DeviceObject* device = nullptr;
};

struct StreamObject : DevicePart {
  static constexpr Kind kKind = Kind::kStream;
  using DevicePart::DevicePart;

  rt_stream* plain = nullptr;
  std::size_t number = 0;
  Clock clock;                       // what has run before the next work of the stream
  std::shared_ptr<Capture> capture;  // nullptr: the work runs
  void* scratch = nullptr;           // device memory in which launches are tried
  uint64_t scratch_bytes = 0;
  // Whether an event behind all work so far has answered that the work has run.
  std::shared_ptr<bool> vouched = std::make_shared<bool>(false);
};

struct EventObject : DevicePart {
  static constexpr Kind kKind = Kind::kEvent;
  using DevicePart::DevicePart;
  rt_event* plain = nullptr;
  // The members below describe the latest record. `clock` is the work that has run when the event
  // completes, `queued` and `seen_complete` are the times between which it completed, and `capture`
  // is the capture that the record belongs to.
  Clock clock;
  Epoch epoch;  // of the record itself
  bool recorded = false, captured = false;
  SteadyTime queued;
  std::optional<SteadyTime> seen_complete;
  std::weak_ptr<Capture> capture;
  std::shared_ptr<bool> vouches;  // StreamObject::vouched
};

// What a plan says of one of its operands.
struct OperandSpec {
  uint64_t bytes = 0;
  rt_dtype dtype = RT_UINT8;
  bool canonical = true;
};

struct PlanObject : DevicePart {
  static constexpr Kind kKind = Kind::kPlan;
  using DevicePart::DevicePart;
  rt_plan* plain = nullptr;
  const PlanObject* forward = nullptr;
  std::vector<OperandSpec> inputs, outputs;
  rt_plan_info info{};
  double tolerance = 0;
  std::map<std::size_t, Epoch> launches;  // the last one on each stream, by number of the stream
  bool is_deterministic() const { return (info.flags & RT_PLAN_DETERMINISTIC) != 0; }
  // Returns the size of the data that a forward plan saves and its backward plan reads.
  uint64_t saved_bytes() const { return (forward ? *forward : *this).info.saved_bytes; }
};

struct RecordingObject : DevicePart {
  static constexpr Kind kKind = Kind::kRecording;
  using DevicePart::DevicePart;
  rt_recording* plain = nullptr;
  std::vector<Capture::Access> accesses;
  Epoch last;  // replay
};

// The body of a function of a table that can fail and whose first argument is an object. Only one
// thread may be in such a call for `object`.
template <typename T, typename Handle, typename Body>
rt_status with(Handle* handle, rt_error* error, Body&& body) {
  T* object = nullptr;
  try {
    object = &as<T>(handle);
  } catch (const std::exception& e) {
    return fill(error, RT_ERROR_INVALID_ARGUMENT, std::string(kRuntimeAtFault) + e.what());
  }
  return answer(object->findings(), error, [&] {
    body(*object);
    return rt_status{RT_OK};
  });
}

// The same for a function that cannot fail.
template <typename T, typename Handle, typename Body>
void released(Handle* handle, Body&& body) {
  T& object = as<T>(handle);
  release(object.findings(), [&] { body(object); });
}

}  // namespace plugins::validate

#endif  // PLUGINS_VALIDATE_OBJECTS_H_
