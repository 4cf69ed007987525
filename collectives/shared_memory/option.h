// The option with which a plugin switches shared memory off.
#ifndef COLLECTIVES_SHARED_MEMORY_OPTION_H_
#define COLLECTIVES_SHARED_MEMORY_OPTION_H_

#include <string_view>

#include "rt/sdk/communicator.h"

namespace collectives::shared_memory {

inline constexpr rt_option_spec kOption = {
    sizeof(rt_option_spec), RT_OPTION_STRING, "shared_memory", "on",
    "collectives of ranks on one machine go through shared memory: on, off"};

// Throws rt::sdk::Error (RT_ERROR_INVALID_ARGUMENT) for other values than on and off.
inline bool is_on(const rt_comm_options& options) {
  const std::string_view value = rt::sdk::option_text(options, kOption);
  if (value == "on" || value == "off") return value == "on";
  throw rt::sdk::Error(
      RT_ERROR_INVALID_ARGUMENT,
      rt::sdk::format("option shared_memory is '%s'; expected on or off", value.data()));
}

}  // namespace collectives::shared_memory

#endif  // COLLECTIVES_SHARED_MEMORY_OPTION_H_
