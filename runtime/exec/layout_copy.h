// Copies tensors between the host and a device's own layouts, with the device's operation `copy`.
#ifndef RUNTIME_EXEC_LAYOUT_COPY_H_
#define RUNTIME_EXEC_LAYOUT_COPY_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "plugins/host/device.h"

namespace runtime::exec {

// Every function waits for the stream, which must outlive this object. One thread at a time.
class LayoutCopy {
 public:
  explicit LayoutCopy(plugins::host::Stream& stream) : stream_(stream) {}

  // The elements in canonical order; nullopt if the device cannot copy out of this layout.
  std::optional<std::vector<std::byte>> read(const rt_tensor_desc& tensor, const void* address);
  // Writes elements given in canonical order in the layout of `tensor`. Throws plugins::host::Error
  // if the device cannot copy into it.
  void write(const rt_tensor_desc& tensor, void* address, const std::vector<std::byte>& bytes);

 private:
  plugins::host::Device& device() const { return *stream_.device(); }
  void* plain(const rt_tensor_desc& tensor);
  void copy(const plugins::host::Operation& operation, const void* from, void* to);

  plugins::host::Stream& stream_;
  plugins::host::Memory plain_;  // device memory in canonical layout, kept for the next tensor
};

// The size of the tensor in the canonical layout, in bytes.
uint64_t canonical_bytes(const rt_tensor_desc& tensor);

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_LAYOUT_COPY_H_
