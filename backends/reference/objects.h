// The objects behind the opaque types of the contract.
#ifndef BACKENDS_REFERENCE_OBJECTS_H_
#define BACKENDS_REFERENCE_OBJECTS_H_

#include <chrono>
#include <map>
#include <mutex>

#include "backends/reference/answer.h"

// Memory is the host's; a device only counts what was allocated through it.
struct rt_device {
  std::mutex mutex;
  std::map<void*, uint64_t> allocations;  // guarded by mutex
  uint64_t allocated_bytes = 0;           // guarded by mutex
};

// Work runs in the calling thread, so a stream has no state of its own.
struct rt_stream {
  rt_device* device;
};

struct rt_event {
  std::chrono::steady_clock::time_point recorded{};
  bool ever_recorded = false;
};

struct rt_plan {
  backends::reference::Planned planned;
};

namespace backends::reference {

const rt_device_api* device_table();
const rt_kernel_api* kernel_table();

}  // namespace backends::reference

#endif  // BACKENDS_REFERENCE_OBJECTS_H_
