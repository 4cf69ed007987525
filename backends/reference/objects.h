// The opaque structs of the contract as this plugin defines them.
#ifndef BACKENDS_REFERENCE_OBJECTS_H_
#define BACKENDS_REFERENCE_OBJECTS_H_

#include <cstring>
#include <map>
#include <mutex>

#include "backends/reference/answer.h"
#include "rt/sdk/inline_event.h"

// Device memory is host memory; the device only counts the allocations made through it. The methods
// of these structs are those of rt/sdk/device_table.h and rt/sdk/kernel_table.h.
struct rt_device {
  void* allocate(uint64_t bytes, int32_t kind);
  void release(void* address, int32_t kind);
  rt_memory_info memory_info();
  static rt_utilisation utilisation() { return {0, -1, -1, -1, -1}; }

 private:
  std::mutex mutex_;
  std::map<void*, uint64_t> allocations_;  // guarded by mutex_
  uint64_t allocated_bytes_ = 0;           // guarded by mutex_
};

// Work runs in the calling thread, so a stream has no state of its own.
struct rt_stream {
  explicit rt_stream(rt_device&) {}
  void synchronize() {}
  void copy(void* to, const void* from, uint64_t bytes) { std::memcpy(to, from, bytes); }
  void fill(void* to, int32_t value, uint64_t bytes) { std::memset(to, value, bytes); }
};

struct rt_event : rt::sdk::InlineEvent {
  explicit rt_event(rt_device&) {}
};

// A plan of the contract.
struct rt_plan {
  rt_plan_info info() const { return planned.info(); }
  void launch(rt_stream&, const rt_launch& launch) {
    planned.check_launch(&launch);
    planned.kernel().run({launch.inputs, launch.outputs, launch.workspace, launch.saved});
  }
  backends::reference::Planned planned;
};

namespace backends::reference {

// The devices of an instance: one, reference:0, which is the host itself.
struct Devices {
  static int32_t count() { return 1; }
  static rt_device_properties properties(int32_t index);
  static rt_device* open(int32_t, const rt_device_options&) { return new rt_device; }
};

}  // namespace backends::reference

#endif  // BACKENDS_REFERENCE_OBJECTS_H_
