// The devices that exist: every program that uses runtime::Tensor begins with a Context.
#ifndef RUNTIME_TENSOR_CONTEXT_H_
#define RUNTIME_TENSOR_CONTEXT_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace runtime {

namespace detail {
class TensorContext;

// The program that examines plugins, in the installation that this header belongs to. The CMake
// target runtime::tensor defines its path.
#ifdef RUNTIME_PLUGIN_PROBE
inline constexpr const char* kPluginProbe = RUNTIME_PLUGIN_PROBE;
#else
inline constexpr const char* kPluginProbe = "";
#endif
}  // namespace detail

// A device as its plugin lists it, usable or not.
struct DeviceSummary {
  std::string id;    // "cuda:0"
  std::string name;  // "AMD EPYC, 2 threads"
  bool usable = false;
  std::string unusable_reason;  // empty if usable
  uint64_t memory_bytes = 0;
};

// Owns the plugins and the devices that tensors have opened. It is a handle: copies share both, and
// a tensor keeps alive what it needs. Two contexts share nothing. Thread-safe.
//
// Devices are named as in PyTorch: "cpu" is "cpu:0", and "cuda:1" is the second device of the
// plugin cuda.
class Context {
 public:
  // Finds the plugins in `plugin_paths` (absolute paths of folders or files), in
  // RUNTIME_PLUGIN_PATH, and beside the executable (../lib/runtime/plugins) or, where that folder
  // does not exist, in the installation that `probe` belongs to. It examines them in
  // child processes with the program at `probe` (SearchPath::probe in plugins/host/registry.h says
  // what replaces a missing one). Plugins that cannot be used are left out; see rejections(). A
  // plugin is loaded when a tensor is made on one of its devices. Throws DeviceError if there are
  // plugins but the program that examines them is not found.
  explicit Context(const std::vector<std::filesystem::path>& plugin_paths = {},
                   const std::filesystem::path& probe = detail::kPluginProbe);

  // All devices of all plugins, usable or not.
  std::vector<DeviceSummary> devices() const;

  // The number of usable devices of all plugins, or of one ("cuda"). It is 0 for a plugin that does
  // not exist, so that programs can ask. Equivalent to: torch.cuda.device_count().
  int device_count() const;
  int device_count(const std::string& plugin) const;

  // "<path>: <reason>" for each library that was found and not loaded.
  std::vector<std::string> rejections() const;

 private:
  friend class Tensor;
  std::shared_ptr<detail::TensorContext> state_;
};

}  // namespace runtime

#endif  // RUNTIME_TENSOR_CONTEXT_H_
