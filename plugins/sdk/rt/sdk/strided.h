// Walks over tensors whose operands have strides of their own, with as few dimensions as possible.
#ifndef RT_SDK_STRIDED_H_
#define RT_SDK_STRIDED_H_

#include <array>
#include <cstdint>

#include "rt/sdk/expect.h"

namespace rt::sdk {

// A walk over `dims` in row-major order; strides are in elements. The struct is plain, so that it
// can be an argument of a kernel.
template <size_t Operands>
struct Strided {
  int64_t rank = 0;                             // dimensions that are used of each array
  int64_t dims[RT_MAX_RANK] = {};               // the outermost one first
  int64_t strides[Operands][RT_MAX_RANK] = {};  // 0 along a dimension that repeats
};

// Merges dimensions that all operands read as one, and leaves out those of length 1. The result has
// at least one dimension: {1} for a single element.
template <size_t Operands>
Strided<Operands> merge_dims(const Dims& dims, const std::array<Dims, Operands>& strides) {
  Strided<Operands> walk;
  const auto follows = [&](size_t d) {  // whether dimension d continues the last one of the walk
    for (size_t k = 0; k < Operands; ++k) {
      if (walk.strides[k][walk.rank - 1] != strides[k][d] * dims[d]) return false;
    }
    return true;
  };
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    const bool merge = walk.rank > 0 && follows(d);
    const int64_t at = merge ? walk.rank - 1 : walk.rank++;
    walk.dims[at] = merge ? walk.dims[at] * dims[d] : dims[d];
    for (size_t k = 0; k < Operands; ++k) walk.strides[k][at] = strides[k][d];
  }
  if (walk.rank == 0) walk.dims[walk.rank++] = 1;
  return walk;
}

}  // namespace rt::sdk

#endif  // RT_SDK_STRIDED_H_
