// What every entry of a plugin would write again.
#ifndef RT_SDK_PLUGIN_H_
#define RT_SDK_PLUGIN_H_

#include "rt/plugin.h"
#include "rt/sdk/error.h"

namespace rt::sdk {

// rt_plugin::options of a plugin without any.
inline const rt_option_spec* const* no_options(void*, uint32_t* count) {
  *count = 0;
  return nullptr;
}

// Throws unless this plugin's version of the contract is one that the host speaks.
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
