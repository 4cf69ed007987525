// Numbers of the host as elements of a tensor.
#ifndef RUNTIME_EXEC_ENCODE_H_
#define RUNTIME_EXEC_ENCODE_H_

#include <cstddef>
#include <vector>

#include "rt/common.h"

namespace runtime::exec {

// The numbers rounded to a floating type, or as elements of int32, int64 or uint8. Throws
// InternalError for another type.
std::vector<std::byte> encode(const std::vector<double>& numbers, rt_dtype dtype);

// Elements of float32, float64, int32, int64 or uint8 as numbers. Throws InternalError for another
// type.
std::vector<double> decode(const std::vector<std::byte>& elements, rt_dtype dtype);

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_ENCODE_H_
