// The arithmetic of the reductions: combines elements of all ranks in the order of ranks.
#ifndef COLLECTIVES_SHARED_MEMORY_COMBINE_H_
#define COLLECTIVES_SHARED_MEMORY_COMBINE_H_

#include <cstddef>

#include "rt/communicator.h"

namespace collectives::shared_memory {

// Bytes of one element. Throws rt::sdk::Error for a type that the contract does not define.
std::size_t bytes_of(rt_dtype dtype);

// Computes out[i] = sources[0][i] op ... op sources[ranks - 1][i], from left to right. `out` may be
// one of the sources. 16-bit floats are combined in float32 and rounded once; integers wrap around.
using Combine = void (*)(void* out, const void* const* sources, std::size_t ranks,
                         std::size_t count);

// Returns the function for a type and a reduction. Throws rt::sdk::Error for a type or reduction
// that the contract does not define.
Combine combine_of(rt_dtype dtype, int32_t reduction);

}  // namespace collectives::shared_memory

#endif  // COLLECTIVES_SHARED_MEMORY_COMBINE_H_
