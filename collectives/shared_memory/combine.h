// The arithmetic of the reductions: combines elements of all ranks in the order of ranks.
#ifndef COLLECTIVES_SHARED_MEMORY_COMBINE_H_
#define COLLECTIVES_SHARED_MEMORY_COMBINE_H_

#include <cstddef>

#include "rt/communicator.h"

namespace collectives::shared_memory {

// Bytes of one element. Throws rt::sdk::Error for a type that the contract does not define.
std::size_t bytes_of(rt_dtype dtype);
// Bytes of one element of what Stage::kFirst computes.
std::size_t partial_bytes_of(rt_dtype dtype);

// Computes out[i] = sources[0][i] op ... op sources[count_of_sources - 1][i], from left to right.
// `out` may be one of the sources whose elements have its size. 16-bit floats are combined in
// float32 and rounded once; integers wrap around. An average is divided by `ranks`.
using Combine = void (*)(void* out, const void* const* sources, std::size_t count_of_sources,
                         std::size_t count, std::size_t ranks);

// A reduction over several machines has two stages: each machine combines the elements of its own
// ranks, and then the results of all machines are combined. Between them 16-bit floats are float32,
// so that they are rounded once, and an average is a sum.
enum class Stage { kWhole, kFirst, kLast };

// Returns the function for a type and a reduction. Throws rt::sdk::Error for a type or reduction
// that the contract does not define.
Combine combine_of(rt_dtype dtype, int32_t reduction, Stage stage = Stage::kWhole);

}  // namespace collectives::shared_memory

#endif  // COLLECTIVES_SHARED_MEMORY_COMBINE_H_
