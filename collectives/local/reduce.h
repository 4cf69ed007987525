// Element-wise reduction over the ranks' buffers.
#ifndef COLLECTIVES_LOCAL_REDUCE_H_
#define COLLECTIVES_LOCAL_REDUCE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "rt/communicator.h"

namespace collectives::local {

// `count` elements of each source, combined in the order of the sources, into each target. A
// target may be one of the sources (the same address), not overlap one otherwise.
void reduce(rt_dtype dtype, int32_t reduction, std::span<const void* const> sources,
            std::span<void* const> targets, std::size_t count);

}  // namespace collectives::local

#endif  // COLLECTIVES_LOCAL_REDUCE_H_
