// The way in which the host's destructors call into a plugin, and the owner of an object of a
// plugin.
#ifndef PLUGINS_HOST_RELEASE_H_
#define PLUGINS_HOST_RELEASE_H_

#include <exception>
#include <memory>
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

// Deletes an object of a plugin by a function of its tables that cannot fail. `maker`, the device
// or the communicator that has made the object, stays open until then.
template <typename Maker, typename Object>
struct Release {
  std::shared_ptr<Maker> maker;
  const char* name = nullptr;  // of the function, for the log
  void (*function)(Object*) = nullptr;
  void operator()(Object* object) const {
    call_release(maker->plugin(), name, [&] { function(object); });
  }
};

template <typename Maker, typename Object>
using Handle = std::unique_ptr<Object, Release<Maker, Object>>;

}  // namespace plugins::host

#endif  // PLUGINS_HOST_RELEASE_H_
