// Helpers for the entry of a plugin.
#ifndef RT_SDK_PLUGIN_H_
#define RT_SDK_PLUGIN_H_

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

}  // namespace rt::sdk

#endif  // RT_SDK_PLUGIN_H_
