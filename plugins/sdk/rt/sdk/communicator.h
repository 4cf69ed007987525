// Helpers for communicator plugins.
#ifndef RT_SDK_COMMUNICATOR_H_
#define RT_SDK_COMMUNICATOR_H_

#include <algorithm>
#include <cstring>

#include "rt/communicator.h"
#include "rt/plugin.h"
#include "rt/sdk/error.h"
#include "rt/sdk/plugin.h"

namespace rt::sdk {

// Mask of RT_DTYPE_BIT with every element type of the contract.
inline constexpr uint64_t kAllDtypes = (RT_DTYPE_BIT(RT_INT8) << 1) - RT_DTYPE_BIT(RT_FLOAT32);

// Returns the value of an option, or its default if the host does not give it. The text lives as
// long as `options` and `spec`.
inline const char* option_text(const rt_comm_options& options, const rt_option_spec& spec) {
  for (uint32_t i = 0; i < options.option_count; ++i) {
    if (std::strcmp(options.options[i]->key, spec.key) == 0) return options.options[i]->value;
  }
  return spec.default_value;
}

// Implements rt_communicator_api.capabilities for a plugin that supports every collective with
// every reduction, also in place. `dtypes` and `memory_kinds` are the masks of each row. See
// rt_communicator_api.capabilities for `rows` and `count`.
inline void list_all_collectives(uint64_t dtypes, uint32_t memory_kinds, rt_comm_capability* rows,
                                 uint32_t* count) {
  constexpr uint32_t kKinds = RT_BARRIER;  // the kinds are 1..RT_BARRIER
  *count = rows == nullptr ? kKinds : std::min(*count, kKinds);
  for (uint32_t i = 0; rows != nullptr && i < *count; ++i) {
    rt_comm_capability row{};
    row.collective = static_cast<int32_t>(i) + 1;
    row.dtypes = dtypes;
    row.reductions = 1u << RT_SUM | 1u << RT_AVERAGE | 1u << RT_MIN | 1u << RT_MAX;
    row.memory_kinds = memory_kinds;
    row.flags = RT_COMM_IN_PLACE;
    write_element(rows, i, row);
  }
}

// Implements rt_plugin.get_interface for a plugin whose only table is `api`.
template <const rt_communicator_api& api>
const void* get_communicator_api(void*, const char* name, uint32_t version) {
  const bool known = std::strcmp(name, RT_INTERFACE_COMMUNICATOR) == 0 && version == api.version;
  return known ? &api : nullptr;
}

}  // namespace rt::sdk

#endif  // RT_SDK_COMMUNICATOR_H_
