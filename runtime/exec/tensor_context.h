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
}

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
  // Loads the plugins of `plugin_paths` (absolute: folders or files), of RUNTIME_PLUGIN_PATH, and
  // those beside the executable (../lib/runtime/plugins). A plugin that cannot be loaded is left
  // out; see rejections().
  explicit Context(const std::vector<std::filesystem::path>& plugin_paths = {});

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
