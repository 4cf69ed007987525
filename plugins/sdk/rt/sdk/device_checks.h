// Checks of what the host gives a device, and the sizes of its memory. rt/sdk/device_table.h makes
// those that need no device.
#ifndef RT_SDK_DEVICE_CHECKS_H_
#define RT_SDK_DEVICE_CHECKS_H_

#include <algorithm>

#include "rt/device.h"
#include "rt/sdk/error.h"

namespace rt::sdk {

// Checks an index of a device; `count` devices exist.
inline void expect_device(int32_t index, int32_t count) {
  if (index >= 0 && index < count) return;
  throw Error(RT_ERROR_INVALID_ARGUMENT,
              format("device %d does not exist; the plugin has %d, counted from 0", index, count),
              RT_SCOPE_DEVICE);
}

// For devices that do not tell what others use of their memory: all that this plugin has not
// allocated counts as free.
inline rt_memory_info own_memory_info(uint64_t total, uint64_t allocated) {
  rt_memory_info info{};
  info.total_bytes = total;
  info.allocated_bytes = allocated;
  info.free_bytes = total - std::min(total, allocated);
  return info;
}

// Throws Error (RT_ERROR_OUT_OF_MEMORY) if more bytes are asked for than are free, or than the
// device gives at once.
inline void expect_free(uint64_t bytes, uint64_t free, uint64_t largest) {
  if (bytes <= std::min(free, largest)) return;
  throw Error(RT_ERROR_OUT_OF_MEMORY,
              format("%llu bytes asked for; %llu are free, and the device gives at most %llu at "
                     "once; use smaller batches",
                     static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(free),
                     static_cast<unsigned long long>(largest)));
}

// Throws Error (RT_ERROR_INVALID_ARGUMENT) for an allocation of no bytes or of an unknown kind.
inline void expect_allocation(uint64_t bytes, int32_t kind) {
  if (kind != RT_MEMORY_DEVICE && kind != RT_MEMORY_PINNED_HOST) {
    throw Error(
        RT_ERROR_INVALID_ARGUMENT,
        format("memory kind %d; expected RT_MEMORY_DEVICE (0) or RT_MEMORY_PINNED_HOST (1)", kind));
  }
  if (bytes == 0)
    throw Error(RT_ERROR_INVALID_ARGUMENT, "an allocation of 0 bytes; expected at least 1");
}

// Throws Error (RT_ERROR_INVALID_ARGUMENT) unless `value` is one of a byte.
inline void expect_byte(int32_t value) {
  if (value >= 0 && value <= 255) return;
  throw Error(RT_ERROR_INVALID_ARGUMENT, format("fill value %d; expected 0 to 255", value));
}

}  // namespace rt::sdk

#endif  // RT_SDK_DEVICE_CHECKS_H_
