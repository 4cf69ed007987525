// How far two results are from one another.
#ifndef PLUGINS_VALIDATE_DIFFERENCE_H_
#define PLUGINS_VALIDATE_DIFFERENCE_H_

#include <cstddef>
#include <span>

#include "rt/common.h"

namespace plugins::validate {

// The Euclidean norm of the difference of two tensors, relative to that of the first one, where
// both are numbers; infinity if only one of them is NaN or infinite somewhere, or if integers
// differ.
double relative_difference(std::span<const std::byte> a, std::span<const std::byte> b,
                           rt_dtype dtype);

// The bytes of one element; 1 for an unknown type.
std::size_t element_bytes(rt_dtype dtype);
// The distance from 1 to the next number of the type; 0 for integers.
double epsilon_of(rt_dtype dtype);

}  // namespace plugins::validate

#endif  // PLUGINS_VALIDATE_DIFFERENCE_H_
