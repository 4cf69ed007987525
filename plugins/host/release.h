// The way in which the host's destructors call into a plugin.
#ifndef PLUGINS_HOST_RELEASE_H_
#define PLUGINS_HOST_RELEASE_H_

#include <exception>
#include <string>

#include "plugins/host/plugin.h"
#include "plugins/host/printable.h"

namespace plugins::host {

// For destructors: calls a function of the contract that cannot fail. If it throws nevertheless,
// the exception is logged.
template <typename Body>
void call_release(const Plugin& plugin, const char* what, Body&& body) noexcept {
  try {
    body();
  } catch (const std::exception& e) {
    plugin.log(RT_LOG_ERROR, std::string(what) + " threw an exception: " + printable(e.what()));
  } catch (...) {
    plugin.log(RT_LOG_ERROR, std::string(what) + " threw something that is not a std::exception");
  }
}

}  // namespace plugins::host

#endif  // PLUGINS_HOST_RELEASE_H_
