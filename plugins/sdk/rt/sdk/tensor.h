// Element types and descriptions of tensors: sizes, comparisons, texts.
#ifndef RT_SDK_TENSOR_H_
#define RT_SDK_TENSOR_H_

#include <cstdint>
#include <string>

#include "rt/common.h"

namespace rt::sdk {

// "float32"; "dtype 77" for an unknown type.
inline std::string to_string(rt_dtype dtype) {
  switch (dtype) {
    case RT_FLOAT32:
      return "float32";
    case RT_FLOAT64:
      return "float64";
    case RT_FLOAT16:
      return "float16";
    case RT_BFLOAT16:
      return "bfloat16";
    case RT_INT32:
      return "int32";
    case RT_INT64:
      return "int64";
    case RT_UINT8:
      return "uint8";
    case RT_INT8:
      return "int8";
    default:
      return "dtype " + std::to_string(dtype);
  }
}

// Bytes of one element; 0 for an unknown type.
inline uint64_t dtype_bytes(rt_dtype dtype) {
  switch (dtype) {
    case RT_FLOAT64:
    case RT_INT64:
      return 8;
    case RT_FLOAT32:
    case RT_INT32:
      return 4;
    case RT_FLOAT16:
    case RT_BFLOAT16:
      return 2;
    case RT_UINT8:
    case RT_INT8:
      return 1;
    default:
      return 0;
  }
}

// Whether the type is float16 or bfloat16.
inline bool is_sixteen_bit(rt_dtype dtype) { return dtype == RT_FLOAT16 || dtype == RT_BFLOAT16; }

// Number of elements; does not check for overflow.
inline int64_t element_count(const rt_tensor_desc& tensor) {
  int64_t count = 1;
  for (int32_t i = 0; i < tensor.rank; ++i) count *= tensor.dims[i];
  return count;
}

// "float32 [64, 28, 28, 1]"
inline std::string to_string(const rt_tensor_desc& tensor) {
  std::string text = to_string(tensor.dtype) + " [";
  for (int32_t i = 0; i < tensor.rank; ++i) {
    text += (i ? ", " : "") + std::to_string(tensor.dims[i]);
  }
  return text + "]";
}

// Whether rank and dims are equal; types and layouts may differ.
inline bool same_dims(const rt_tensor_desc& a, const rt_tensor_desc& b) {
  if (a.rank != b.rank) return false;
  for (int32_t i = 0; i < a.rank; ++i) {
    if (a.dims[i] != b.dims[i]) return false;
  }
  return true;
}

}  // namespace rt::sdk

#endif  // RT_SDK_TENSOR_H_
