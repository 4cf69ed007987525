// A shared library of the vendor. It is loaded when a device is opened, so that the plugin can be
// loaded without it, and a list of plugins does not read hundreds of megabytes.
#ifndef BACKENDS_GPU_LIBRARY_H_
#define BACKENDS_GPU_LIBRARY_H_

#include <dlfcn.h>

#include <string>

#include "rt/sdk/error.h"

namespace backends::gpu {

// Any thread may look up symbols.
class Library {
 public:
  // Loads the library; throws RT_ERROR_UNAVAILABLE if that fails. The library stays loaded for the
  // life of the process, because its threads and exit handlers outlive any device.
  explicit Library(const char* name)
      : name_(name), handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) {
    if (handle_ == nullptr) throw rt::sdk::Error(RT_ERROR_UNAVAILABLE, dlerror());
  }
  ~Library() { dlclose(handle_); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  // Sets `function` to the address of `symbol`. Throws RT_ERROR_UNAVAILABLE if the library lacks
  // it.
  template <typename Function>
  void find(const char* symbol, Function& function) const {
    find_optional(symbol, function);
    if (function != nullptr) return;
    throw rt::sdk::Error(RT_ERROR_UNAVAILABLE, name_ + ": symbol " + symbol + " is missing");
  }

  // Sets `function` to the address of `symbol`, or to null if the library lacks it.
  template <typename Function>
  void find_optional(const char* symbol, Function& function) const {
    function = reinterpret_cast<Function>(dlsym(handle_, symbol));
  }

 private:
  std::string name_;
  void* handle_;
};

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_LIBRARY_H_
