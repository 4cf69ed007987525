// The opaque structs of the contract as this plugin defines them.
#ifndef BACKENDS_REFERENCE_OBJECTS_H_
#define BACKENDS_REFERENCE_OBJECTS_H_

#include <chrono>
#include <map>
#include <mutex>

#include "backends/reference/answer.h"

// Device memory is host memory; the device only counts the allocations made through it.
struct rt_device {
  std::mutex mutex;
  std::map<void*, uint64_t> allocations;  // guarded by mutex
  uint64_t allocated_bytes = 0;           // guarded by mutex
};

// Work runs in the calling thread, so a stream has no state of its own.
struct rt_stream {
  rt_device* device;
};

// The time of the last event_record.
struct rt_event {
  std::chrono::steady_clock::time_point recorded{};
  bool ever_recorded = false;
};

// A plan of the contract.
struct rt_plan {
  backends::reference::Planned planned;
};

namespace backends::reference {

// The tables of rt.device and rt.kernel; both live as long as the process.
const rt_device_api* device_table();
const rt_kernel_api* kernel_table();

}  // namespace backends::reference

#endif  // BACKENDS_REFERENCE_OBJECTS_H_
