// The JSON header of a safetensors file, which is checked completely before any tensor is read.
#ifndef RUNTIME_DATA_SAFETENSORS_HEADER_H_
#define RUNTIME_DATA_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "rt/common.h"

namespace runtime::data {

// Type, dimensions and place of one tensor.
struct TensorEntry {
  std::string name;
  rt_dtype dtype = 0;
  std::vector<int64_t> dims;
  uint64_t begin = 0, end = 0;  // bytes, counted from the end of the header
};

// A checked header.
struct TensorHeader {
  std::string text;
  std::vector<TensorEntry> entries;  // in the order of `begin`; together they cover the data
                                     // without gaps
  std::map<std::string, std::string> metadata;
};

class Source;

// Reads and checks the header at the beginning of a file. Throws DataError.
TensorHeader read_tensor_header(Source& source);
// The same of a header's text, which `data_bytes` of tensors follow; `file` is for messages.
TensorHeader parse_tensor_header(std::string text, uint64_t data_bytes, const std::string& file);

// Returns the bytes of one element, or 0 for a type that safetensors does not know.
uint64_t dtype_size(rt_dtype dtype);
// Returns the name in the file, for example "F32", or nullptr for a type that safetensors does not
// know.
const char* dtype_name(rt_dtype dtype);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_SAFETENSORS_HEADER_H_
