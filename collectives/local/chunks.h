// A collective cut into pieces that any thread may carry out, in any order, each once.
#ifndef COLLECTIVES_LOCAL_CHUNKS_H_
#define COLLECTIVES_LOCAL_CHUNKS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "rt/communicator.h"

namespace collectives::local {

// So that a chunk keeps the addresses of all ranks on the stack.
inline constexpr std::size_t kMaxRanks = 256;

// `calls` are those of all ranks, by rank, and agree; of a pair: the send, the receive.
uint64_t chunk_count(std::span<const rt_collective> calls);

// Chunk 0..chunk_count()-1. Reads and writes its own elements only, so that buffers may be shared
// as RT_COMM_IN_PLACE allows; the result does not depend on who carries out what.
void run_chunk(std::span<const rt_collective> calls, uint64_t chunk);

}  // namespace collectives::local

#endif  // COLLECTIVES_LOCAL_CHUNKS_H_
