// One loaded plugin: the library, its instance and its tables.
#ifndef PLUGINS_HOST_PLUGIN_H_
#define PLUGINS_HOST_PLUGIN_H_

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plugins/host/trust.h"
#include "rt/capture.h"
#include "rt/communicator.h"
#include "rt/device.h"
#include "rt/kernel.h"
#include "rt/plugin.h"

namespace plugins::host {

// What the host offers to its plugins; see rt_host. Copied; the functions may be called from any
// thread. Empty ones are not offered.
struct HostServices {
  std::function<void(int32_t level, const std::string& component, const std::string& text)> log =
      nullptr;
  std::function<void(const std::string& key, const std::string& value)> kv_set = nullptr;
  // Waits until the key exists; throws Error (RT_ERROR_TIMEOUT) when the deadline has passed.
  std::function<std::string(const std::string& key, std::chrono::nanoseconds timeout)> kv_get =
      nullptr;
  std::function<void(const char* name)> span_begin = nullptr;
  std::function<void()> span_end = nullptr;
};

// Never unloaded from the process (dlclose is unsafe with thread pools); the *instance* is shut
// down by the destructor. Thread-safe: immutable after loading.
class Plugin {
 public:
  // Loads the library at `path` into this process and makes an instance. Throws Error naming the
  // path and why check_file (trust.h) refuses it, the loader's words, both versions, the missing
  // slot, or the number that cannot be true. A library that hangs or ends the process does so to
  // this one: Registry::open comes after a look at it from a child process.
  static std::shared_ptr<Plugin> load(const std::filesystem::path& path,
                                      const HostServices& services);
  // The same for a file that was checked. `begin` hears what is done next, as "its entry ran":
  // words for the end of "did not answer while ...".
  static std::shared_ptr<Plugin> load(const CheckedFile& file, const HostServices& services,
                                      const std::function<void(const char*)>& begin);
  ~Plugin();
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  const std::string& name() const;
  const std::string& vendor() const;
  const std::string& version() const;
  const std::string& build_id() const;
  const std::string& description() const;
  const std::filesystem::path& path() const;
  void* self() const;

  // Tables, complete and checked; nullptr if the plugin does not offer the interface.
  const rt_device_api* device_api() const;
  const rt_kernel_api* kernel_api() const;
  const rt_communicator_api* communicator_api() const;
  const rt_capture_api* capture_api() const;

  struct OptionSpec {
    std::string key, default_value, description;
    int32_t type;
  };
  const std::vector<OptionSpec>& options() const;

  // Says something about this plugin through HostServices::log, if there is one. Never throws: the
  // destructors of the handles report here what a plugin threw at them.
  void log(int32_t level, const std::string& text) const noexcept;

 private:
  struct State;
  explicit Plugin(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace plugins::host

#endif  // PLUGINS_HOST_PLUGIN_H_
