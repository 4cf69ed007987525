// Reads a safetensors file tensor by tensor, and checks its checksum on the way.
#include "runtime/data/tensor_stream.h"

#include <utility>

#include "runtime/system/available_memory.h"

namespace runtime::data {

TensorStream::TensorStream(const std::string& path) : source_(open_file(path)) {
  TensorHeader header = read_tensor_header(*source_);
  checksum_ = expected_checksum(header.metadata, header.text, path);
  header_.metadata = std::move(header.metadata);
  entries_ = std::move(header.entries);
  for (const TensorEntry& entry : entries_)
    header_.tensors[entry.name] = {entry.dtype, entry.dims, nullptr, entry.end - entry.begin};
}

void TensorStream::read(
    const std::function<void(const std::string& name, HostTensor tensor)>& visit) {
  for (TensorEntry& entry : entries_) {
    const uint64_t bytes = entry.end - entry.begin;
    system::require_memory(bytes, source_->name() + ": tensor '" + entry.name + "'",
                           "use a machine with more memory");
    HostTensor tensor{entry.dtype, std::move(entry.dims), std::vector<std::byte>(bytes)};
    source_->read_exactly(tensor.bytes.data(), bytes, "tensor '" + entry.name + "'");
    if (checksum_) checksum_->add(tensor.bytes.data(), bytes);
    visit(entry.name, std::move(tensor));
  }
  source_->expect_end();
  if (checksum_) checksum_->check(source_->name());
}

}  // namespace runtime::data
