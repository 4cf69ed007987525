// Reads and fills the structs of the contract. A host and a plugin of different minor versions know
// structs of different sizes; these functions keep the rules of rt/common.h for both.
#ifndef RT_SDK_STRUCTS_H_
#define RT_SDK_STRUCTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "rt/capture.h"
#include "rt/communicator.h"
#include "rt/device.h"
#include "rt/kernel.h"
#include "rt/native.h"
#include "rt/plugin.h"
#include "rt/reader.h"
#include "rt/sdk/error.h"

namespace rt::sdk {

// The name of a struct of the contract, for messages, and its size in the first release.
template <typename T>
struct StructOf;
#define RT_SDK_STRUCT(type, bytes)               \
  template <>                                    \
  struct StructOf<type> {                        \
    static constexpr const char* kName = #type;  \
    static constexpr uint32_t kSizeV1 = (bytes); \
  };
RT_SDK_STRUCT(rt_host, RT_HOST_SIZE_V1)
RT_SDK_STRUCT(rt_negotiation, RT_NEGOTIATION_SIZE_V1)
RT_SDK_STRUCT(rt_tensor_desc, RT_TENSOR_DESC_SIZE_V1)
RT_SDK_STRUCT(rt_option, RT_OPTION_SIZE_V1)
RT_SDK_STRUCT(rt_device_properties, RT_DEVICE_PROPERTIES_SIZE_V1)
RT_SDK_STRUCT(rt_device_options, RT_DEVICE_OPTIONS_SIZE_V1)
RT_SDK_STRUCT(rt_memory_info, RT_MEMORY_INFO_SIZE_V1)
RT_SDK_STRUCT(rt_utilisation, RT_UTILISATION_SIZE_V1)
RT_SDK_STRUCT(rt_attribute, RT_ATTRIBUTE_SIZE_V1)
RT_SDK_STRUCT(rt_post_op, RT_POST_OP_SIZE_V1)
RT_SDK_STRUCT(rt_op_desc, RT_OP_DESC_SIZE_V1)
RT_SDK_STRUCT(rt_candidate, RT_CANDIDATE_SIZE_V1)
RT_SDK_STRUCT(rt_support, RT_SUPPORT_SIZE_V1)
RT_SDK_STRUCT(rt_kernel_work, RT_KERNEL_WORK_SIZE_V1)
RT_SDK_STRUCT(rt_plan_info, RT_PLAN_INFO_SIZE_V1)
RT_SDK_STRUCT(rt_launch, RT_LAUNCH_SIZE_V1)
RT_SDK_STRUCT(rt_comm_capability, RT_COMM_CAPABILITY_SIZE_V1)
RT_SDK_STRUCT(rt_comm_properties, RT_COMM_PROPERTIES_SIZE_V1)
RT_SDK_STRUCT(rt_comm_options, RT_COMM_OPTIONS_SIZE_V1)
RT_SDK_STRUCT(rt_collective, RT_COLLECTIVE_SIZE_V1)
RT_SDK_STRUCT(rt_native_handle, RT_NATIVE_HANDLE_SIZE_V1)
RT_SDK_STRUCT(rt_dataset_request, RT_DATASET_REQUEST_SIZE_V1)
RT_SDK_STRUCT(rt_dataset_info, RT_DATASET_INFO_SIZE_V1)
RT_SDK_STRUCT(rt_samples, RT_SAMPLES_SIZE_V1)
#undef RT_SDK_STRUCT

// Throws Error (RT_ERROR_INVALID_ARGUMENT) unless the caller's struct exists and is at least as
// long as in the first release.
template <typename T>
void check_size(const T* given) {
  if (given != nullptr && given->size >= StructOf<T>::kSizeV1) [[likely]]
    return;
  throw Error(RT_ERROR_INVALID_ARGUMENT,
              given == nullptr ? format("%s is missing", StructOf<T>::kName)
                               : format("%s has %u bytes; expected at least %u", StructOf<T>::kName,
                                        given->size, StructOf<T>::kSizeV1));
}

// Checks an input: like check_size, and throws Error (RT_ERROR_TOO_NEW) if a byte behind the fields
// that this plugin knows is not zero. The same for the options of rt_device_options and
// rt_comm_options. Fields of minor versions after 0 may lie beyond the caller's struct: read them
// from the copy that read_input makes.
template <typename T>
void check_input(const T* given) {
  check_size(given);
  if constexpr (requires { given->option_count; }) {
    for (uint32_t i = 0; i < given->option_count; ++i) check_input(given->options[i]);
  }
  if (given->size <= sizeof(T)) [[likely]]
    return;
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  if (std::all_of(bytes + sizeof(T), bytes + given->size, [](unsigned char b) { return b == 0; }))
    return;
  throw Error(RT_ERROR_TOO_NEW,
              format("%s has %u bytes and uses what lies behind the %zu bytes of version %d.%d of "
                     "the contract, which this plugin was built for; use a plugin that was built "
                     "for the version of this host",
                     StructOf<T>::kName, given->size, sizeof(T), RT_ABI_MAJOR, RT_ABI_MINOR));
}

// Returns a copy of an input, in which fields that the caller does not know are zero and `size` is
// at most sizeof(T). Checks the input as check_input does.
template <typename T>
T read_input(const T* given) {
  check_input(given);
  T copy{};
  const uint32_t bytes = std::min<uint32_t>(given->size, sizeof(T));
  std::memcpy(&copy, given, bytes);
  copy.size = bytes;
  return copy;
}

// Writes `value` into `output`, as far as the caller's struct reaches: the caller may know fewer
// fields than this plugin, or more. `output->size` stays that of the caller. Throws like
// check_size.
template <typename T>
void write_output(T* output, T value) {
  check_size(output);
  value.size = output->size;
  std::memcpy(output, &value, std::min<std::size_t>(output->size, sizeof(T)));
}

// Writes `value` into element `index` of an array of outputs (rt_candidate, rt_comm_capability).
// Its elements are as far apart as the caller says in `size` of the first one. Throws like
// check_size.
template <typename T>
void write_element(T* array, uint32_t index, T value) {
  check_size(array);
  value.size = array->size;
  std::memcpy(reinterpret_cast<unsigned char*>(array) + std::size_t{index} * array->size, &value,
              std::min<std::size_t>(array->size, sizeof(T)));
}

}  // namespace rt::sdk

#endif  // RT_SDK_STRUCTS_H_
