// Writes tensors with aligned data, and reads them after every offset has been checked.
#include "runtime/data/safetensors.h"

#include <algorithm>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/data/crc32.h"
#include "runtime/data/safetensors_checksum.h"
#include "runtime/data/safetensors_header.h"
#include "runtime/data/source.h"
#include "runtime/error.h"
#include "runtime/system/atomic_file.h"
#include "runtime/system/available_memory.h"

namespace runtime::data {
namespace {

constexpr char kMetadata[] = "__metadata__";
// From here on a file is not worth the room that it would take in the page cache. Its data begin at
// a page, so that pages of memory become pages of the file.
constexpr uint64_t kLarge = uint64_t{64} << 20;
constexpr uint64_t kPage = 4096;
// A block stays in the cache between its checksum and the inspection.
constexpr uint64_t kInspected = uint64_t{256} << 10;

TensorFile parse_tensors(Source& source) {
  TensorHeader header = read_tensor_header(source);
  system::require_memory(source.limit(), source.name() + ": its tensors",
                         "use a machine with more memory");
  std::optional<Checksum> checksum = expected_checksum(header.metadata, header.text, source.name());
  TensorFile file;
  file.metadata = std::move(header.metadata);
  for (TensorEntry& entry : header.entries) {  // in the order of the data
    HostTensor tensor{entry.dtype, std::move(entry.dims), {}};
    tensor.bytes.resize(entry.end - entry.begin);
    source.read_exactly(tensor.bytes.data(), tensor.bytes.size(), "tensor '" + entry.name + "'");
    if (checksum) checksum->add(tensor.bytes.data(), tensor.bytes.size());
    file.tensors.emplace(std::move(entry.name), std::move(tensor));
  }
  source.expect_end();
  if (checksum) checksum->check(source.name());
  return file;
}

using Named = std::pair<const std::string, TensorView>;

void check_tensor(const std::string& path, const Named& named) {
  const std::string what = "cannot write " + path + ": tensor '" + named.first + "' has ";
  if (named.first == kMetadata) {
    throw DataError(what + "the name that safetensors keeps for metadata; rename it");
  }
  uint64_t size = dtype_size(named.second.dtype);
  if (size == 0) {
    throw DataError(what + "type number " + std::to_string(named.second.dtype) +
                    ", which safetensors does not know; cast it first");
  }
  for (const int64_t dim : named.second.dims) size *= static_cast<uint64_t>(dim);
  if (size == named.second.bytes) return;
  throw DataError(what + std::to_string(named.second.bytes) + " bytes; expected " +
                  std::to_string(size) + " for its shape");
}

// Returns the tensors with wide types first, then by name, as the safetensors library does. Every
// tensor is then aligned.
template <typename File>
auto file_order(File& file) {
  std::vector<decltype(&*file.tensors.begin())> order;
  for (auto& named : file.tensors) order.push_back(&named);
  std::stable_sort(order.begin(), order.end(), [](const Named* a, const Named* b) {
    return dtype_size(a->second.dtype) > dtype_size(b->second.dtype);
  });
  return order;
}

// Returns the header with zeros for the checksum's digits. Metadata that the caller gave under the
// checksum's keys are replaced.
std::string header_text(const std::string& path, const FileView& file,
                        const std::vector<const Named*>& order) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  std::map<std::string, std::string> metadata = file.metadata;
  add_blank_checksum(metadata);
  header[kMetadata] = metadata;
  uint64_t offset = 0;
  for (const Named* named : order) {
    const uint64_t end = offset + named->second.bytes;
    header[named->first] = {{"dtype", dtype_name(named->second.dtype)},
                            {"shape", named->second.dims},
                            {"data_offsets", {offset, end}}};
    offset = end;
  }
  try {
    std::string text = header.dump();
    const uint64_t unit = offset >= kLarge ? kPage : kLengthSize;
    text.resize((kLengthSize + text.size() + unit - 1) / unit * unit - kLengthSize, ' ');
    return text;
  } catch (const nlohmann::json::exception& error) {
    throw DataError("cannot write " + path + ": a name or metadata is not UTF-8: " + error.what());
  }
}

// The content of a file refers to the tensors that it was made of.
struct Content {
  std::vector<const Named*> order;
  std::string header;
  uint64_t length = 0;  // of the header
  uint64_t bytes = 0;   // of the tensors
  uint32_t crc = 0;     // of the tensors' bytes, one after the other

  // Passes everything on in its order: write(address, size). Tensors that follow each other in
  // memory are passed on together.
  template <class Write>
  void write(Write&& write) const {
    write(&length, kLengthSize);
    write(header.data(), header.size());
    for (size_t i = 0; i < order.size();) {
      const std::byte* const begin = order[i]->second.data;
      uint64_t size = 0;
      do size += order[i++]->second.bytes;
      while (i < order.size() && order[i]->second.data == begin + size);
      write(begin, size);
    }
  }

  WrittenFile written() const {
    const uint32_t before = crc32(header.data(), header.size(), crc32(&length, kLengthSize));
    return {kLengthSize + header.size() + bytes, joined_crc32(before, crc, bytes)};
  }
};

// Returns the checksum of the bytes `begin` to `end` of the tensors' data, after an inspection.
uint32_t inspect_and_sum(const Content& content, const Inspect& inspect, uint64_t begin,
                         uint64_t end) {
  uint32_t crc = 0;
  uint64_t first = 0;  // byte of the tensor
  for (const Named* named : content.order) {
    const auto& [name, tensor] = *named;
    const uint64_t last = std::min(end, first + tensor.bytes);
    for (uint64_t at = std::max(begin, first); at < last; at += kInspected) {
      const std::byte* const block = tensor.data + (at - first);
      const uint64_t bytes = std::min(kInspected, last - at);
      crc = crc32(block, bytes, crc);  // waits for the memory less than it computes
      if (inspect) inspect(name, tensor.dtype, block, bytes);
    }
    first += tensor.bytes;
  }
  return crc;
}

// The tensors may be large: one pass over them serves both checksums and the inspection.
uint32_t inspect_and_sum(const Content& content, const Inspect& inspect, int threads) {
  const uint64_t count = content.bytes >= kLarge ? std::max(1, threads) : 1;
  const uint64_t part = (content.bytes / count / kInspected + 1) * kInspected;
  const auto end_of = [&](uint64_t begin) { return std::min(begin + part, content.bytes); };
  std::vector<std::future<uint32_t>> others;
  for (uint64_t begin = part; begin < content.bytes; begin += part) {
    others.push_back(std::async(std::launch::async, [&, begin] {
      return inspect_and_sum(content, inspect, begin, end_of(begin));
    }));
  }
  uint32_t crc = inspect_and_sum(content, inspect, 0, end_of(0));
  for (uint64_t begin = part; std::future<uint32_t> & other : others) {
    crc = joined_crc32(crc, other.get(), end_of(begin) - begin);
    begin += part;
  }
  return crc;
}

Content lay_out(const std::string& path, const FileView& file, const Inspect& inspect,
                int threads) {
  Content content;
  content.order = file_order(file);
  for (const Named* named : content.order) {
    check_tensor(path, *named);
    content.bytes += named->second.bytes;
  }
  content.header = header_text(path, file, content.order);
  content.crc = inspect_and_sum(content, inspect, threads);
  Checksum checksum(content.header);
  checksum.add_known(content.crc, content.bytes);
  checksum.write_into(content.header);
  content.length = content.header.size();
  return content;
}

}  // namespace

TensorFile read_safetensors(const std::string& path) { return parse_tensors(*open_file(path)); }

std::map<std::string, std::string> read_safetensors_metadata(const std::string& path) {
  const std::unique_ptr<Source> source = open_file(path);
  TensorHeader header = read_tensor_header(*source);
  expected_checksum(header.metadata, header.text, source->name());
  return header.metadata;
}

TensorFile parse_safetensors(const std::byte* data, std::size_t size, const std::string& name) {
  return parse_tensors(*memory_source(data, size, name));
}

FileView::FileView(const TensorFile& file) : metadata(file.metadata) {
  for (const auto& [name, t] : file.tensors)
    tensors[name] = {t.dtype, t.dims, t.bytes.data(), t.bytes.size()};
}

void place_tensors(FileView& file, const std::byte* memory) {
  for (auto* named : file_order(file)) {
    named->second.data = memory;
    memory += named->second.bytes;
  }
}

WrittenFile write_safetensors(const std::string& path, const FileView& file, const Inspect& inspect,
                              int threads) {
  const Content content = lay_out(path, file, inspect, threads);
  using Size = system::AtomicFile::Size;
  system::AtomicFile out(path, content.bytes >= kLarge ? Size::kLarge : Size::kOrdinary);
  content.write([&](const void* data, std::size_t size) { out.write(data, size); });
  out.commit();
  return content.written();
}

std::string safetensors_text(const FileView& file, const std::string& name,
                             const Inspect& inspect) {
  const Content content = lay_out(name, file, inspect, 1);
  std::string text;
  text.reserve(content.written().bytes);
  content.write([&](const void* data, std::size_t size) {
    text.append(static_cast<const char*>(data), size);
  });
  return text;
}

}  // namespace runtime::data
