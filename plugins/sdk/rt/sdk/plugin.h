// Helpers for the entry of a plugin.
#ifndef RT_SDK_PLUGIN_H_
#define RT_SDK_PLUGIN_H_

#include <cstring>

#include "rt/plugin.h"
#include "rt/sdk/error.h"
#include "rt/sdk/structs.h"

namespace rt::sdk {

// Implements rt_plugin.options for a plugin without options.
inline const rt_option_spec* const* no_options(void*, uint32_t* count) {
  *count = 0;
  return nullptr;
}

// Writes the version of the contract that this plugin was compiled with. Throws Error
// (RT_ERROR_VERSION) unless the host speaks its major version. `plugin` is the plugin's name, for
// the message.
inline void negotiate(rt_negotiation* negotiation, const char* plugin) {
  check_size(negotiation);
  rt_negotiation answer{};
  std::memcpy(&answer, negotiation, RT_NEGOTIATION_SIZE_V1);
  answer.plugin_major = RT_ABI_MAJOR;
  answer.plugin_minor = RT_ABI_MINOR;
  write_output(negotiation, answer);
  if (answer.host_major_min <= RT_ABI_MAJOR && RT_ABI_MAJOR <= answer.host_major_max) return;
  throw Error(
      RT_ERROR_VERSION,
      format("plugin %s was built for version %d.%d of the contract, the host speaks %u to "
             "%u; rebuild one of them",
             plugin, RT_ABI_MAJOR, RT_ABI_MINOR, answer.host_major_min, answer.host_major_max),
      RT_SCOPE_PROCESS);
}

}  // namespace rt::sdk

#endif  // RT_SDK_PLUGIN_H_
