// Memory of a device with guard bytes around each allocation.
#ifndef PLUGINS_VALIDATE_MEMORY_H_
#define PLUGINS_VALIDATE_MEMORY_H_

#include <cstddef>

#include "plugins/validate/objects.h"

namespace plugins::validate {

constexpr std::byte kGuard{0xA5};      // the value of guard bytes
constexpr uint64_t kGuardBytes = 256;  // behind each allocation and each operand

// The bytes in front of each allocation, which keep its alignment.
inline uint64_t front_guard(const rt_device_properties& properties) {
  return std::max<uint64_t>(properties.alignment, kGuardBytes);
}

// Allocates with guards and keeps the block. Faults the plugin for an address that is not aligned,
// or that lies in memory which it has given out already.
void* allocate_guarded(DeviceObject& device, uint64_t bytes, int32_t kind, rt_error* error);
// Checks the guards, then frees. Faults the runtime for an address that is not allocated, another
// kind of memory, and memory that queued work or a collective still uses.
void free_guarded(DeviceObject& device, void* address, int32_t kind);
// Faults the plugin if guards of the device's memory have changed. Does nothing while work is
// recorded, because the device may then not be waited for.
void check_guards(DeviceObject& device, const char* call);

// Checks that [address, address + bytes) is memory of the device that kernels may use: its own, or,
// if it computes in host memory, that of another device. `where` names the call and the operand.
// The caller holds Tracker::mutex.
void expect_device_memory(DeviceObject& device, const Range& range, const std::string& where);
// The same for memory that copies and collectives may use. Returns false for memory of the host
// that no device has allocated.
bool expect_any_memory(DeviceObject& device, const Range& range, const std::string& where);

}  // namespace plugins::validate

#endif  // PLUGINS_VALIDATE_MEMORY_H_
