// Reads a safetensors file tensor by tensor, and checks its checksum on the way.
#include "runtime/data/tensor_stream.h"

#include <optional>
#include <utility>

#include "runtime/data/safetensors_checksum.h"
#include "runtime/data/safetensors_header.h"
#include "runtime/data/source.h"
#include "runtime/system/available_memory.h"

namespace runtime::data {

struct TensorStream::State {
  std::unique_ptr<RawSource> source;
  TensorHeader header;
  std::optional<Checksum> checksum;
};

TensorStream::TensorStream(const std::string& path) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.source = open_file(path);
  const std::string text = read_tensor_header(*s.source);
  s.header = parse_tensor_header(text, path, kLengthSize, s.source->limit());
  s.checksum = expected_checksum(s.header.metadata, text, path);
  header_.metadata = s.header.metadata;
  for (const TensorEntry& entry : s.header.entries)
    header_.tensors[entry.name] = {entry.dtype, entry.dims, nullptr, entry.end - entry.begin};
}

TensorStream::~TensorStream() = default;

void TensorStream::read(
    const std::function<void(const std::string& name, HostTensor tensor)>& visit) {
  State& s = *state_;
  for (TensorEntry& entry : s.header.entries) {  // in the order of the data
    const uint64_t bytes = entry.end - entry.begin;
    system::require_memory(bytes, s.source->name() + ": tensor '" + entry.name + "'",
                           "use a machine with more memory");
    HostTensor tensor{entry.dtype, std::move(entry.dims), std::vector<std::byte>(bytes)};
    s.source->read_exactly(tensor.bytes.data(), bytes, "tensor '" + entry.name + "'");
    if (s.checksum) s.checksum->add(tensor.bytes.data(), bytes);
    visit(entry.name, std::move(tensor));
  }
  s.source->expect_end();
  if (s.checksum) s.checksum->check(s.source->name());
}

}  // namespace runtime::data
