// One loaded plugin: the library, its instance and its tables.
#ifndef PLUGINS_HOST_PLUGIN_H_
#define PLUGINS_HOST_PLUGIN_H_

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugins/host/interposer.h"
#include "plugins/host/operation_set.h"
#include "plugins/host/tables.h"
#include "plugins/host/trust.h"
#include "rt/capture.h"
#include "rt/communicator.h"
#include "rt/device.h"
#include "rt/kernel.h"
#include "rt/native.h"
#include "rt/plugin.h"
#include "rt/reader.h"

namespace plugins::host {

// The functions that the host offers to its plugins; see rt_host for each of them. Copied into each
// plugin. The functions must be callable from any thread. An empty function is not offered.
struct HostServices {
  std::function<void(int32_t level, const std::string& component, const std::string& text)> log =
      nullptr;
  std::function<void(const std::string& key, const std::string& value)> kv_set = nullptr;
  // Waits until the key exists; throws Error (RT_ERROR_TIMEOUT) if that takes longer than
  // `timeout`.
  std::function<std::string(const std::string& key, std::chrono::nanoseconds timeout)> kv_get =
      nullptr;
  std::function<void(const char* name)> span_begin = nullptr;
  std::function<void()> span_end = nullptr;
  // The functions of rt_host_process_api; without them the plugin learns that nothing is known.
  std::function<uint64_t()> available_memory = nullptr;
  std::function<bool()> stop_requested = nullptr;
};

// A loaded plugin. Immutable after loading, and so thread-safe. The destructor shuts the *instance*
// down; the library stays in the process, because dlclose is unsafe with thread pools.
class Plugin {
 public:
  // Loads the library at `path` into this process and makes an instance. Throws Error that names
  // the path and the reason: why check_file (trust.h) refuses it, the dynamic loader's message,
  // versions of the C interface that differ (the host's and the plugin's), a mandatory function
  // that is null, or a value out of its bounds. A library that hangs or ends the process does so in
  // this process; Registry::open therefore loads only plugins that were probed in a child process
  // before.
  // With an `interposer` the host uses the tables that it makes of the plugin's.
  static std::shared_ptr<Plugin> load(const std::filesystem::path& path,
                                      const HostServices& services,
                                      const std::shared_ptr<Interposer>& interposer = nullptr);
  // The same for a file that was checked already. `begin` is called before each step with a text
  // like "its entry ran", which ends the message "did not answer while ...".
  static std::shared_ptr<Plugin> load(const CheckedFile& file, const HostServices& services,
                                      const std::function<void(const char*)>& begin,
                                      const std::shared_ptr<Interposer>& interposer = nullptr);
  ~Plugin();
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  const std::string& name() const { return texts_.name; }
  const std::string& vendor() const { return texts_.vendor; }
  const std::string& version() const { return texts_.version; }
  const std::string& build_id() const { return texts_.build_id; }
  const std::string& description() const { return texts_.description; }
  // RT_ABI_MINOR of the headers that the plugin was compiled with; 0 for a plugin of the first
  // release. The host may use fields and values of later minor versions only for plugins that have
  // them.
  uint32_t minor() const { return minor_; }
  const std::filesystem::path& path() const { return path_; }
  // The first argument of the functions of the device and communicator tables. Without an
  // interposer it is rt_plugin.self.
  void* self() const { return interposed_ ? interposed_->self() : instance_->self; }
  // rt_plugin.self, the first argument of the functions that no interposer wraps: those of
  // rt.reader and rt.operations.
  void* plain_self() const { return instance_->self; }
  // Gives an object of the plugin a name for the findings of the interposer: "layer 'conv1'". Does
  // nothing without one.
  void name_object(const void* object, const std::string& text) const {
    if (interposed_) interposed_->name(object, text);
  }

  // The tables of the plugin, checked and complete; nullptr if the plugin does not offer the
  // interface.
  const rt_device_api* device_api() const { return offered(tables_.device); }
  const rt_kernel_api* kernel_api() const { return offered(tables_.kernel); }
  const rt_communicator_api* communicator_api() const { return offered(tables_.communicator); }
  const rt_capture_api* capture_api() const { return offered(tables_.capture); }
  const rt_native_api* native_api() const { return offered(tables_.native); }
  const rt_reader_api* reader_api() const { return offered(tables_.reader); }
  const rt_operations_api* operations_api() const { return offered(tables_.operations); }

  using OptionSpec = host::OptionSpec;
  const std::vector<OptionSpec>& options() const { return options_; }
  // The operations that the plugin brings.
  const std::vector<OperationSpec>& operations() const { return operations_; }
  // The dims of the output of one of them that has no formula; see output_dims in operation_set.h.
  std::vector<int64_t> output_dims(const std::string& operation, const Operation& op) const;

  // Logs a message about this plugin through HostServices::log, if there is one. Never throws, so
  // that the destructors of the handles can report what a plugin threw at them.
  void log(int32_t level, const std::string& text) const noexcept;

 private:
  struct Texts {
    std::string name, vendor, version, build_id, description;
  };

  Plugin() = default;
  template <typename Table>
  static const Table* offered(const std::optional<Table>& table) {
    return table ? &*table : nullptr;
  }

  std::filesystem::path path_;
  HostServices services_;
  rt_host host_{};
  std::optional<rt_plugin> instance_;  // set from the entry on: the destructor calls shutdown
  uint32_t minor_ = 0;
  Texts texts_;
  Tables tables_;
  std::unique_ptr<InterposedPlugin> interposed_;
  std::vector<OptionSpec> options_;
  std::vector<OperationSpec> operations_;
};

}  // namespace plugins::host

#endif  // PLUGINS_HOST_PLUGIN_H_
