// Reading and writing safetensors files (little-endian u64 header size, JSON header, raw tensors).
#ifndef RUNTIME_DATA_SAFETENSORS_H_
#define RUNTIME_DATA_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "rt/common.h"

namespace runtime::data {

struct HostTensor {
  rt_dtype dtype = RT_FLOAT32;
  std::vector<int64_t> dims;  // row-major
  std::vector<std::byte> bytes;
};

// By name, in the order of names.
struct TensorFile {
  std::map<std::string, HostTensor> tensors;
  std::map<std::string, std::string> metadata;
};

// Throws DataError naming file, offset, expected and actual; never allocates more than the size of
// the file. Overlaps, gaps, offsets out of range, duplicate names and unknown types are refused.
TensorFile read_safetensors(const std::string& path);
// The same from memory; `name` is used in messages.
TensorFile parse_safetensors(const std::byte* data, std::size_t size, const std::string& name);

// Written to a temporary file beside it, fsynced and renamed: the old or the new file, never a
// mixture.
void write_safetensors(const std::string& path, const TensorFile& file);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_SAFETENSORS_H_
