// Elementwise reduction of the buffers of several ranks.
#ifndef COLLECTIVES_LOCAL_REDUCE_H_
#define COLLECTIVES_LOCAL_REDUCE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "rt/communicator.h"

namespace collectives::local {

// Combines `count` elements of each source, in the order of the sources, and writes the result to
// each target. A target may be one of the sources (the same address); otherwise it may not overlap
// any source.
void reduce(rt_dtype dtype, int32_t reduction, std::span<const void* const> sources,
            std::span<void* const> targets, std::size_t count);

}  // namespace collectives::local

#endif  // COLLECTIVES_LOCAL_REDUCE_H_
