// What the host believes of the numbers and texts that a plugin gives: every one of them has a
// bound, and one beyond it is refused where it enters the host.
#ifndef PLUGINS_HOST_LIMITS_H_
#define PLUGINS_HOST_LIMITS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "plugins/host/operation.h"
#include "rt/communicator.h"
#include "rt/device.h"
#include "rt/kernel.h"

namespace plugins::host {

constexpr std::size_t kMaxNameLength = 31;  // fits rt_comm_properties.device_plugin with its NUL
constexpr std::size_t kMaxTextLength = 1023;
constexpr uint32_t kMaxOptions = 256;
constexpr int32_t kMaxDevices = 1024;
constexpr uint64_t kMaxAlignment = uint64_t{2} << 20;  // a huge page
constexpr uint64_t kMaxBytes = uint64_t{1} << 50;      // of one buffer or one device: 1 PiB
constexpr uint32_t kMaxCandidates = 1024;
constexpr uint32_t kMaxCapabilities = 1024;

// Each of these throws Error (RT_ERROR_INTERNAL) that begins with `what` and says the value, what
// was expected and that the plugin has to be corrected.

// A text of at most `longest` bytes, made printable.
std::string checked_text(const char* text, std::size_t longest, const std::string& what);

// A name of a plugin: [a-z][a-z0-9_]*, at most kMaxNameLength (RT_ERROR_INVALID_ARGUMENT).
void check_name(const std::string& name, const std::string& what);

// 0 <= value <= most.
void check_count(int64_t value, int64_t most, const std::string& what);

// Checks a size that a plugin gives for device memory, a buffer or a layout.
void check_bytes(uint64_t bytes, const std::string& what);

// Also makes the texts printable and takes types out of the masks that this host does not know.
void check_properties(rt_device_properties& properties, const std::string& what);
void check_properties(rt_comm_properties& properties, const std::string& what);
void check_candidate(rt_candidate& candidate, const Operation& operation, const std::string& what);
void check_plan(rt_plan_info& info, const Operation& operation, const std::string& what);

}  // namespace plugins::host

#endif  // PLUGINS_HOST_LIMITS_H_
