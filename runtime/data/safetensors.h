// Reading and writing of safetensors files (little-endian u64 header size, JSON header, raw
// tensors).
#ifndef RUNTIME_DATA_SAFETENSORS_H_
#define RUNTIME_DATA_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "rt/common.h"

namespace runtime::data {

// A dense tensor in host memory that it owns.
struct HostTensor {
  rt_dtype dtype = RT_FLOAT32;
  std::vector<int64_t> dims;
  std::vector<std::byte> bytes;  // row-major
};

// The contents of a file; tensors are in the order of their names.
struct TensorFile {
  std::map<std::string, HostTensor> tensors;
  std::map<std::string, std::string> metadata;
};

// A dense tensor in host memory that somebody else owns.
struct TensorView {
  rt_dtype dtype = RT_FLOAT32;
  std::vector<int64_t> dims;
  const std::byte* data = nullptr;  // row-major
  uint64_t bytes = 0;
};

// The contents of a file whose tensors are owned elsewhere.
struct FileView {
  FileView() = default;
  // Views a file, for as long as it is not changed.
  // NOLINTNEXTLINE(google-explicit-constructor)
  FileView(const TensorFile& file);

  std::map<std::string, TensorView> tensors;
  std::map<std::string, std::string> metadata;
};

// Gives the tensors the addresses that they have if `memory` holds the data of the file as they are
// written, from the first tensor on. A file from 64 MiB on is written without another copy if
// `memory` begins at a page.
void place_tensors(FileView& file, const std::byte* memory);

// Sees each tensor before it is written, block by block, as whole numbers that lie in the cache.
// If it throws, the writing ends before there is a file.
using Inspect =
    std::function<void(const std::string& name, rt_dtype, const std::byte* block, uint64_t bytes)>;

// Reads a whole file. Throws DataError that names file, offset, expected and actual value;
// overlaps, gaps, offsets out of range, duplicate names and unknown types are refused. Never
// allocates more than the size of the file.
TensorFile read_safetensors(const std::string& path);
// Reads only the metadata, without the checksum's keys; nothing but the header is checked.
std::map<std::string, std::string> read_safetensors_metadata(const std::string& path);
// Reads a whole file from memory; `name` is used in messages.
TensorFile parse_safetensors(const std::byte* data, std::size_t size, const std::string& name);

// A file as it was written.
struct WrittenFile {
  uint64_t bytes = 0;
  uint32_t crc32 = 0;  // of the whole file
};

// Writes to a temporary file beside `path`, which is synced and renamed, so that `path` is the old
// or the new file and never a mixture. Throws DataError.
// So many `threads` share the checksum and the inspection of a file of 64 MiB and more.
WrittenFile write_safetensors(const std::string& path, const FileView& file,
                              const Inspect& inspect = nullptr, int threads = 1);
// Returns the bytes of such a file; `name` is used in messages.
std::string safetensors_text(const FileView& file, const std::string& name,
                             const Inspect& inspect = nullptr);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_SAFETENSORS_H_
