// The JSON header of a safetensors file, checked completely before any tensor is read.
#ifndef RUNTIME_DATA_SAFETENSORS_HEADER_H_
#define RUNTIME_DATA_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "rt/common.h"

namespace runtime::data {

struct TensorEntry {
  std::string name;
  rt_dtype dtype = 0;
  std::vector<int64_t> dims;
  uint64_t begin = 0, end = 0;  // bytes, from the end of the header
};

struct TensorHeader {
  std::vector<TensorEntry> entries;  // by begin: together they cover the data without gap
  std::map<std::string, std::string> metadata;
};

// `text_offset`: where the text begins in the file, for messages; `data_size`: bytes behind it.
// Throws DataError.
TensorHeader parse_tensor_header(const std::string& text, const std::string& file,
                                 uint64_t text_offset, uint64_t data_size);

// Bytes per element; 0 for a type that safetensors does not know.
uint64_t dtype_size(rt_dtype dtype);
// "F32"; nullptr for a type that safetensors does not know.
const char* dtype_name(rt_dtype dtype);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_SAFETENSORS_HEADER_H_
