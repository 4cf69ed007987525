// Runs the device's `copy` between a tensor and a canonical buffer that the host reads and writes.
#include "runtime/exec/layout_copy.h"

#include "plugins/host/drain.h"
#include "rt/operations.h"
#include "runtime/exec/launch_addresses.h"
#include "runtime/graph/graph.h"

namespace runtime::exec {

namespace {

plugins::host::Operation copy_operation(const rt_tensor_desc& tensor, uint64_t from, uint64_t to) {
  plugins::host::Operation operation;
  operation.name = RT_OP_COPY;
  operation.inputs = {tensor};
  operation.outputs = {tensor};
  operation.inputs[0].layout = from;
  operation.outputs[0].layout = to;
  return operation;
}

}  // namespace

uint64_t canonical_bytes(const rt_tensor_desc& tensor) {
  uint64_t bytes = graph::dtype_bytes(tensor.dtype);
  for (int32_t i = 0; i < tensor.rank; ++i) bytes *= static_cast<uint64_t>(tensor.dims[i]);
  return bytes;
}

void* LayoutCopy::plain(const rt_tensor_desc& tensor) {
  const uint64_t bytes = canonical_bytes(tensor);
  if (plain_.bytes() < bytes) plain_ = device().allocate(bytes);
  return plain_.data();
}

void LayoutCopy::copy(const plugins::host::Operation& operation, const void* from, void* to) {
  plugins::host::Kernel kernel = device().create_kernel(operation);
  plugins::host::Memory workspace;
  if (kernel.info().workspace_bytes > 0)
    workspace = device().allocate(kernel.info().workspace_bytes);
  const LaunchAddresses addresses{{from}, {to}, workspace.data()};
  const plugins::host::Drain drain(stream_);  // kernel and workspace are freed here
  kernel.launch(stream_, addresses.launch());
  stream_.synchronize();
}

std::optional<std::vector<std::byte>> LayoutCopy::read(const rt_tensor_desc& tensor,
                                                       const void* address) {
  std::vector<std::byte> bytes(canonical_bytes(tensor));
  if (bytes.empty()) return bytes;
  if (tensor.layout != RT_LAYOUT_CANONICAL) {
    const auto operation = copy_operation(tensor, tensor.layout, RT_LAYOUT_CANONICAL);
    if (device().query(operation).level == RT_SUPPORT_REFUSED) return std::nullopt;
    copy(operation, address, plain(tensor));
    address = plain_.data();
  }
  stream_.copy(bytes.data(), address, bytes.size());
  stream_.synchronize();
  return bytes;
}

void LayoutCopy::write(const rt_tensor_desc& tensor, void* address,
                       const std::vector<std::byte>& bytes) {
  if (bytes.empty()) return;
  const bool canonical = tensor.layout == RT_LAYOUT_CANONICAL;
  stream_.copy(canonical ? address : plain(tensor), bytes.data(), bytes.size());
  stream_.synchronize();
  if (!canonical)
    copy(copy_operation(tensor, RT_LAYOUT_CANONICAL, tensor.layout), plain_.data(), address);
}

}  // namespace runtime::exec
