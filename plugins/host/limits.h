// Bounds of the numbers and texts that a plugin gives. The host checks every value when it enters
// and refuses one beyond its bound.
#ifndef PLUGINS_HOST_LIMITS_H_
#define PLUGINS_HOST_LIMITS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plugins/host/kernel_work.h"
#include "plugins/host/operation.h"
#include "rt/communicator.h"
#include "rt/device.h"
#include "rt/kernel.h"
#include "rt/reader.h"

namespace plugins::host {

constexpr std::size_t kMaxNameLength = 31;    // fits rt_comm_properties.device_plugin with its NUL
constexpr std::size_t kMaxTextLength = 1023;  // bytes
constexpr uint32_t kMaxOptions = 256;
constexpr int32_t kMaxDevices = 1024;
constexpr uint64_t kMaxAlignment = uint64_t{2} << 20;  // bytes, one huge page
constexpr uint64_t kMaxBytes = uint64_t{1} << 50;      // 1 PiB, of one buffer or one device
constexpr int32_t kMaxPriority = 1'000'000;
constexpr int32_t kMaxThreads = 65536;
constexpr int64_t kMaxLatency = 60'000'000'000;  // nanoseconds
constexpr uint32_t kMaxCandidates = 1024;
constexpr uint32_t kMaxCapabilities = 1024;
constexpr uint32_t kMaxFormats = 256;
constexpr uint32_t kMaxSampleInputs = 64;
constexpr int64_t kMaxSamples = int64_t{1} << 40;
constexpr int64_t kMaxSampleNumbers = int64_t{1} << 31;  // in the features or target of one sample
constexpr int64_t kMaxClasses = int64_t{1} << 24;        // as dataset.classes
constexpr std::size_t kMaxFormulaLength = 8191;          // bytes, of a formula or gradient
constexpr uint32_t kMaxOperations = 256;                 // that a plugin brings
constexpr uint32_t kMaxAttributes = 32;                  // of one of them
constexpr uint32_t kMaxParameters = RT_MAX_INPUTS / 2 - 1;  // its backward operation reads more
constexpr uint32_t kMaxKernels = 65536;                     // that one launch of a plan queues

// Every function below throws Error (RT_ERROR_INTERNAL) if a value is out of bounds. The message
// begins with `what` and says the value, the expected value, and that the plugin has to be
// corrected.

// Returns the text, made printable. It may have at most `longest` bytes.
std::string checked_text(const char* text, std::size_t longest, const std::string& what);

// Checks the name of a plugin: [a-z][a-z0-9_]*, at most kMaxNameLength characters. Throws with
// RT_ERROR_INVALID_ARGUMENT instead.
void check_name(const std::string& name, const std::string& what);

// Checks 0 <= value <= most.
void check_count(int64_t value, int64_t most, const std::string& what);

// Checks a size in bytes of device memory, a buffer or a layout: at most kMaxBytes.
void check_bytes(uint64_t bytes, const std::string& what);

// These check every field. They also make the texts printable, remove unknown types from masks, and
// set the fields of properties that an older plugin does not fill to 0.
void check_properties(rt_device_properties& properties, const std::string& what);
void check_properties(rt_comm_properties& properties, const std::string& what);
void check_candidate(rt_candidate& candidate, const Operation& operation, const std::string& what);
void check_plan(rt_plan_info& info, const Operation& operation, const std::string& what);

void check_dataset(rt_dataset_info& info, const std::string& what);
void check_sample_input(const rt_sample_input& input, const std::string& what);

// A copy of rt_plan_info.work, checked and with printable names. Empty if the plugin does not tell.
std::vector<KernelWork> checked_work(const rt_plan_info& info, const std::string& what);

}  // namespace plugins::host

#endif  // PLUGINS_HOST_LIMITS_H_
