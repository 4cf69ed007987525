// Which devices there are: the start of every program that uses runtime::Tensor.
#ifndef RUNTIME_EXEC_TENSOR_CONTEXT_H_
#define RUNTIME_EXEC_TENSOR_CONTEXT_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace runtime {

namespace detail {
class TensorContext;

// The program that looks at plugins, of the installation that this header belongs to. The CMake
// target runtime::tensor knows where that is.
#ifdef RUNTIME_PLUGIN_PROBE
inline constexpr const char* kPluginProbe = RUNTIME_PLUGIN_PROBE;
#else
inline constexpr const char* kPluginProbe = "";
#endif
}  // namespace detail

// A device as the plugins list it, whether or not it can be used.
struct DeviceSummary {
  std::string id;    // "cuda:0"
  std::string name;  // "AMD EPYC, 2 threads"
  bool usable = false;
  std::string unusable_reason;  // empty if usable
  uint64_t memory_bytes = 0;
};

// Owns the plugins, and the devices that tensors have opened. A handle: copies share both, and a
// tensor keeps what it needs alive. Two contexts share nothing. Thread-safe.
//
// Devices are named as in PyTorch: "cpu" is "cpu:0", "cuda:1" the second device of the plugin cuda.
class Context {
 public:
  // Finds the plugins of `plugin_paths` (absolute: folders or files), of RUNTIME_PLUGIN_PATH, and
  // those beside the executable (../lib/runtime/plugins), and looks at them from child processes
  // (`probe`, or see plugins/host/registry.h). A plugin that cannot be used is left out; see
  // rejections(). One is loaded when a tensor is made on a device of it. Throws DeviceError when
  // there are plugins and the program that looks at them was not found.
  explicit Context(const std::vector<std::filesystem::path>& plugin_paths = {},
                   const std::filesystem::path& probe = detail::kPluginProbe);

  std::vector<DeviceSummary> devices() const;

  // How many devices can be used: of all plugins, or of one ("cuda"). 0 for a plugin that is not
  // there, so that a program can ask.
  int device_count() const;
  int device_count(const std::string& plugin) const;

  // "<path>: <reason>" of each library that was found and not loaded.
  std::vector<std::string> rejections() const;

 private:
  friend class Tensor;
  std::shared_ptr<detail::TensorContext> state_;
};

}  // namespace runtime

#endif  // RUNTIME_EXEC_TENSOR_CONTEXT_H_
