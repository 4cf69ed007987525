// Helpers for the entry of a plugin, and for the structs that it fills.
#ifndef RT_SDK_PLUGIN_H_
#define RT_SDK_PLUGIN_H_

#include <algorithm>
#include <cstring>

#include "rt/plugin.h"
#include "rt/sdk/error.h"

namespace rt::sdk {

// Implements rt_plugin.options for a plugin without options.
inline const rt_option_spec* const* no_options(void*, uint32_t* count) {
  *count = 0;
  return nullptr;
}

// Writes this plugin's major version. Throws Error (RT_ERROR_VERSION) unless the host speaks it.
// `plugin` is the plugin's name, for the message.
inline void negotiate(rt_negotiation& negotiation, const char* plugin) {
  negotiation.plugin_major = RT_ABI_MAJOR;
  if (negotiation.host_major_min <= RT_ABI_MAJOR && RT_ABI_MAJOR <= negotiation.host_major_max)
    return;
  throw Error(RT_ERROR_VERSION,
              format("plugin %s speaks contract version %d, the host %u to %u; rebuild one of them",
                     plugin, RT_ABI_MAJOR, negotiation.host_major_min, negotiation.host_major_max),
              RT_SCOPE_PROCESS);
}

// Writes `value` into `output`, as far as the caller's struct reaches: the caller may know fewer
// fields than this plugin, or more. `output->size` stays that of the caller. Throws Error
// (RT_ERROR_INVALID_ARGUMENT) if the struct is shorter than `least`, its size in version 1.
template <typename T>
void write_output(T* output, T value, uint32_t least, const char* what) {
  if (output == nullptr || output->size < least) {
    throw Error(RT_ERROR_INVALID_ARGUMENT,
                format("%s is missing or shorter than %u bytes", what, least));
  }
  value.size = output->size;
  std::memcpy(output, &value, std::min<std::size_t>(output->size, sizeof(T)));
}

}  // namespace rt::sdk

#endif  // RT_SDK_PLUGIN_H_
