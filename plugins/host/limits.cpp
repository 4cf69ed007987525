// Checks each struct that a plugin has filled, field by field, and zeroes what it does not know.
#include "plugins/host/limits.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "plugins/host/error.h"
#include "plugins/host/printable.h"

namespace plugins::host {
namespace {

constexpr uint64_t kKnownTypes = RT_DTYPE_BIT(RT_INT8 + 1) - RT_DTYPE_BIT(RT_FLOAT32);

[[noreturn]] void refuse(const std::string& what, const std::string& answer,
                         const std::string& expected) {
  throw Error(RT_ERROR_INTERNAL, what + ": the plugin answers " + answer + ", expected " +
                                     expected + "; the plugin has to be corrected");
}

// Removes bits of types that a later version of the C interface may define; bit 0 is an error,
// because there is no type 0.
void check_types(uint64_t& mask, const char* name, const std::string& what) {
  if (mask & 1)
    refuse(what, std::string(name) + " with bit 0, of no type", "a mask of RT_DTYPE_BIT(RT_...)");
  mask &= kKnownTypes;
}

// Sets the fields that the plugin has not filled to 0, and `size` to the host's own: a plugin may
// write into `size` how much it knows. Smaller sizes than that of version 1 say nothing, because
// hosts of version 1 ignored them.
template <typename T>
void keep_filled(T& output, uint32_t size_v1) {
  if (output.size >= size_v1 && output.size < sizeof(T))
    std::memset(reinterpret_cast<char*>(&output) + output.size, 0, sizeof(T) - output.size);
  output.size = sizeof(T);
}

void check_all_bytes(const uint64_t* bytes, std::size_t count, const std::string& what) {
  for (std::size_t i = 0; i < count; ++i) check_bytes(bytes[i], what);
}

// An element of rt_plan_info.work, whose elements are work[0].size bytes apart.
const rt_kernel_work& work_at(const rt_plan_info& info, uint32_t i) {
  const auto* bytes = reinterpret_cast<const char*>(info.work);
  return *reinterpret_cast<const rt_kernel_work*>(bytes + std::size_t{i} * info.work[0].size);
}

void check_amount(double amount, const char* name, const std::string& what) {
  if (std::isfinite(amount) && amount >= 0) return;
  refuse(what, std::string(name) + " of a kernel that are " + std::to_string(amount),
         "a number that is not negative");
}

// `samples` is a struct with a shape: the features of samples, or a further input.
template <class Samples>
void check_numbers(const Samples& samples, const std::string& what) {
  int64_t numbers = 1;
  for (int32_t i = 0; i < samples.rank; ++i) {
    const int64_t dim = samples.shape[i];
    if (dim < 1 || dim > kMaxSampleNumbers / numbers) {
      refuse(what, "a shape whose number " + std::to_string(i) + " is " + std::to_string(dim),
             "numbers of at least 1 whose product is at most " + std::to_string(kMaxSampleNumbers));
    }
    numbers *= dim;
  }
}

}  // namespace

std::string checked_text(const char* text, std::size_t longest, const std::string& what) {
  const std::size_t length = strnlen(text, longest + 1);
  if (length > longest) {
    refuse(what, "a text of more than " + std::to_string(longest) + " bytes",
           "at most " + std::to_string(longest));
  }
  return printable(std::string_view(text, length));
}

void check_name(const std::string& name, const std::string& what) {
  const auto lower = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto allowed = [&](char c) { return lower(c) || (c >= '0' && c <= '9') || c == '_'; };
  if (!name.empty() && name.size() <= kMaxNameLength && lower(name[0]) &&
      std::all_of(name.begin(), name.end(), allowed))
    return;
  throw Error(RT_ERROR_INVALID_ARGUMENT, what + ": its name is '" + printable(name) +
                                             "'; expected [a-z][a-z0-9_]*, at most " +
                                             std::to_string(kMaxNameLength) + " characters");
}

void check_count(int64_t value, int64_t most, const std::string& what) {
  if (value < 0 || value > most)
    refuse(what, std::to_string(value), "a number from 0 to " + std::to_string(most));
}

void check_bytes(uint64_t bytes, const std::string& what) {
  if (bytes > kMaxBytes)
    refuse(what, std::to_string(bytes) + " bytes", "at most " + std::to_string(kMaxBytes));
}

void check_properties(rt_device_properties& properties, const std::string& what) {
  keep_filled(properties, RT_DEVICE_PROPERTIES_SIZE_V1);
  const uint64_t alignment = properties.alignment;
  if (alignment == 0 || alignment > kMaxAlignment || (alignment & (alignment - 1)) != 0) {
    refuse(what, "an alignment of " + std::to_string(alignment) + " bytes",
           "a power of two from 1 to " + std::to_string(kMaxAlignment));
  }
  check_bytes(properties.memory_bytes, what + ": memory_bytes");
  check_bytes(properties.largest_buffer, what + ": largest_buffer");
  if (properties.largest_buffer != 0 && properties.largest_buffer < alignment) {
    refuse(what, "a largest_buffer of " + std::to_string(properties.largest_buffer) + " bytes",
           "0, or at least its alignment, " + std::to_string(alignment));
  }
  check_types(properties.storage_dtypes, "storage_dtypes", what);
  check_types(properties.compute_dtypes, "compute_dtypes", what);
  check_count(properties.priority, kMaxPriority, what + ": priority");
  check_count(properties.threads, kMaxThreads, what + ": threads");
  make_printable(properties.name);
  make_printable(properties.stable_id);
  make_printable(properties.unusable_reason);
}

void check_properties(rt_comm_properties& properties, const std::string& what) {
  keep_filled(properties, RT_COMM_PROPERTIES_SIZE_V1);
  const auto& plugin = properties.device_plugin;
  const std::string name(plugin, strnlen(plugin, sizeof(plugin)));
  if (!name.empty()) check_name(name, what + ": device_plugin");
  check_count(properties.ranks, RT_RANKS_MPI, what + ": ranks");
  check_count(properties.priority, kMaxPriority, what + ": priority");
  check_count(properties.latency_ns, kMaxLatency, what + ": latency_ns");
  check_count(properties.bytes_per_second, kMaxBytes, what + ": bytes_per_second");
  make_printable(properties.description);
}

void check_sample_input(const rt_sample_input& input, const std::string& what) {
  if (input.dtype != RT_FLOAT32 && input.dtype != RT_INT32)
    refuse(what, "the type " + std::to_string(input.dtype), "RT_FLOAT32 or RT_INT32");
  if (input.rank < 1 || input.rank > RT_MAX_RANK) {
    refuse(what, "the rank " + std::to_string(input.rank),
           "a number from 1 to " + std::to_string(RT_MAX_RANK));
  }
  check_numbers(input, what);
  if (input.least > input.most) {
    refuse(what,
           "the least number " + std::to_string(input.least) + " and the largest " +
               std::to_string(input.most),
           "a least number that is not larger");
  }
}

void check_dataset(rt_dataset_info& info, const std::string& what) {
  if (info.samples < 1 || info.samples > kMaxSamples) {
    refuse(what, std::to_string(info.samples) + " samples",
           "a number from 1 to " + std::to_string(kMaxSamples));
  }
  if (info.feature_dtype != RT_FLOAT32 && info.feature_dtype != RT_UINT8) {
    refuse(what, "features of type " + std::to_string(info.feature_dtype),
           "RT_FLOAT32 or RT_UINT8");
  }
  if (info.rank != 1 && info.rank != 3) {
    refuse(what, "samples of rank " + std::to_string(info.rank),
           "1, [features], or 3, [height, width, channels]");
  }
  check_numbers(info, what);
  const bool labels = info.target == RT_TARGET_LABELS;
  if (!labels && info.target != RT_TARGET_NUMBERS) {
    refuse(what, "targets of kind " + std::to_string(info.target),
           "RT_TARGET_LABELS or RT_TARGET_NUMBERS");
  }
  if (info.classes < (labels ? 1 : 0) || info.classes > (labels ? kMaxClasses : 0)) {
    refuse(what, std::to_string(info.classes) + " classes",
           labels ? "a number from 1 to " + std::to_string(kMaxClasses) : "0, for numbers");
  }
  if (info.target_count < 1 || info.target_count > kMaxSampleNumbers) {
    refuse(what, std::to_string(info.target_count) + " numbers in a target",
           "a number from 1 to " + std::to_string(kMaxSampleNumbers));
  }
  make_printable(info.description);
}

void check_candidate(rt_candidate& candidate, const Operation& operation, const std::string& what) {
  make_printable(candidate.implementation);
  if (std::isnan(candidate.estimated_ns)) refuse(what, "a time that is no number", "nanoseconds");
  check_all_bytes(candidate.input_bytes,
                  std::min<std::size_t>(operation.inputs.size(), RT_MAX_INPUTS), what);
  check_all_bytes(candidate.output_bytes,
                  std::min<std::size_t>(operation.outputs.size(), RT_MAX_OUTPUTS), what);
}

std::vector<KernelWork> checked_work(const rt_plan_info& info, const std::string& what) {
  std::vector<KernelWork> work;
  if (info.work == nullptr || info.work_count == 0) return work;
  check_count(info.work_count, kMaxKernels, what + ": work_count");
  if (info.work[0].size < RT_KERNEL_WORK_SIZE_V1) {
    refuse(what, "an rt_kernel_work of " + std::to_string(info.work[0].size) + " bytes",
           "at least " + std::to_string(RT_KERNEL_WORK_SIZE_V1));
  }
  for (uint32_t i = 0; i < info.work_count; ++i) {
    const rt_kernel_work& kernel = work_at(info, i);
    check_amount(kernel.bytes, "bytes", what);
    check_amount(kernel.flops, "flops", what);
    work.push_back({printable_array(kernel.name), kernel.bytes, kernel.flops});
  }
  return work;
}

void check_plan(rt_plan_info& info, const Operation& operation, const std::string& what) {
  keep_filled(info, RT_PLAN_INFO_SIZE_V1);
  make_printable(info.implementation);
  check_bytes(info.workspace_bytes, what + ": workspace_bytes");
  check_bytes(info.saved_bytes, what + ": saved_bytes");
  const std::size_t inputs = operation.inputs.size();
  const std::size_t outputs = std::min<std::size_t>(operation.outputs.size(), RT_MAX_OUTPUTS);
  for (std::size_t k = 0; k < outputs; ++k) {
    if (uint64_t{info.in_place[k]} >> inputs == 0) continue;
    refuse(what,
           "that output " + std::to_string(k) + " may share the memory of an input that " +
               "the operation does not have (mask " + std::to_string(info.in_place[k]) + ")",
           "one of its " + std::to_string(inputs) + " inputs");
  }
}

}  // namespace plugins::host
