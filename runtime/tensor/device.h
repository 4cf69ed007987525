// Internals of runtime::Tensor: opened devices with their stream, memory and plans. Not installed.
#ifndef RUNTIME_TENSOR_DEVICE_H_
#define RUNTIME_TENSOR_DEVICE_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "plugins/host/device.h"
#include "plugins/host/registry.h"

namespace runtime::detail {

// One opened device with one stream. All work runs in the order of that stream, so memory can be
// reused without waiting: only later work overwrites what queued work still uses. Thread-safe.
class TensorDevice {
 public:
  explicit TensorDevice(std::shared_ptr<plugins::host::Device> device);

  const std::string& id() const { return device_->id(); }
  const rt_device_properties& properties() const { return device_->properties(); }

  // Uninitialised memory, taken from recycled memory of that size if there is some. Waits only if
  // the device is out of memory or too much recycled memory is unused.
  plugins::host::Memory acquire(uint64_t bytes);
  // Takes memory for reuse; queued work may still use it.
  void recycle(plugins::host::Memory memory) noexcept;

  // Queue a copy from the host, a copy to it, and a fill with zeros.
  void upload(void* destination, const void* host, uint64_t bytes);
  void download(void* host, const void* source, uint64_t bytes);  // waits for the result
  void zero(void* destination, uint64_t bytes);
  // Queues the operation. Its plan is made at the first launch and kept.
  void launch(const plugins::host::Operation& operation, const std::vector<const void*>& inputs,
              void* output);

 private:
  struct Scratch;
  plugins::host::Kernel& kernel_for(const plugins::host::Operation& operation);
  plugins::host::Memory acquire_locked(uint64_t bytes);
  void recycle_locked(plugins::host::Memory memory) noexcept;
  void release_unused();  // waits for the stream

  std::shared_ptr<plugins::host::Device> device_;
  std::mutex mutex_;
  std::multimap<uint64_t, plugins::host::Memory> unused_;  // by size
  uint64_t unused_bytes_ = 0;
  std::map<std::string, plugins::host::Kernel> kernels_;  // by key_of(operation)
  plugins::host::Stream stream_;  // last member: destroyed first, which waits for its work
};

// The state of a Context. Thread-safe.
class TensorContext {
 public:
  explicit TensorContext(const plugins::host::SearchPath& path);
  const plugins::host::Registry& registry() const { return registry_; }

  // Returns the device, opened if it is not open yet. `name`: "cpu" or "cpu:0". Throws DeviceError
  // for a malformed name and plugins::host::Error for a device that does not exist.
  TensorDevice& device(const std::string& name);

 private:
  plugins::host::Registry registry_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<TensorDevice>> devices_;  // by id, "cpu:0"
};

// The memory shared by copies of a tensor; empty if it has no bytes.
class TensorStorage {
 public:
  TensorStorage(std::shared_ptr<TensorContext> context, TensorDevice& device, uint64_t bytes);
  ~TensorStorage();
  TensorStorage(const TensorStorage&) = delete;
  TensorStorage& operator=(const TensorStorage&) = delete;

  TensorDevice& device() const { return device_; }
  const std::shared_ptr<TensorContext>& context() const { return context_; }
  void* data() const { return memory_.data(); }

 private:
  std::shared_ptr<TensorContext> context_;
  TensorDevice& device_;
  plugins::host::Memory memory_;
};

}  // namespace runtime::detail

#endif  // RUNTIME_TENSOR_DEVICE_H_
