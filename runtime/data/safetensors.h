// Reading and writing of safetensors files (little-endian u64 header size, JSON header, raw
// tensors).
#ifndef RUNTIME_DATA_SAFETENSORS_H_
#define RUNTIME_DATA_SAFETENSORS_H_

#include <cstdint>
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
WrittenFile write_safetensors(const std::string& path, const TensorFile& file);
// Returns the bytes of such a file; `name` is used in messages.
std::string safetensors_text(const TensorFile& file, const std::string& name);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_SAFETENSORS_H_
