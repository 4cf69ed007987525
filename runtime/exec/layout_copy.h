// Tensors on their way between the host and a device's own layouts, by the device's operation
// `copy`.
#ifndef RUNTIME_EXEC_LAYOUT_COPY_H_
#define RUNTIME_EXEC_LAYOUT_COPY_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "plugins/host/device.h"

namespace runtime::exec {

// Every function waits for the stream. One thread; the stream outlives it.
class LayoutCopy {
 public:
  explicit LayoutCopy(plugins::host::Stream& stream) : stream_(stream) {}

  // The elements in the canonical order; nullopt: the device does not copy out of this layout.
  std::optional<std::vector<std::byte>> read(const rt_tensor_desc& tensor, const void* address);
  // From the canonical order into the layout of `tensor`. Throws plugins::host::Error where the
  // device does not copy into it.
  void write(const rt_tensor_desc& tensor, void* address, const std::vector<std::byte>& bytes);

 private:
  plugins::host::Device& device() const { return *stream_.device(); }
  void* plain(const rt_tensor_desc& tensor);
  void copy(const plugins::host::Operation& operation, const void* from, void* to);

  plugins::host::Stream& stream_;
  plugins::host::Memory plain_;  // on the device, canonical; kept for the next tensor
};

// The size of the tensor in bytes when its layout is the canonical one.
uint64_t canonical_bytes(const rt_tensor_desc& tensor);

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_LAYOUT_COPY_H_
