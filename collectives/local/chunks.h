// Splits a collective into chunks. Any thread may carry out any chunk, in any order; each chunk is
// carried out once.
#ifndef COLLECTIVES_LOCAL_CHUNKS_H_
#define COLLECTIVES_LOCAL_CHUNKS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "rt/communicator.h"

namespace collectives::local {

// Largest number of ranks. It is bounded so that a chunk keeps the addresses of all ranks on the
// stack.
inline constexpr std::size_t kMaxRanks = 256;

// The number of chunks of a collective. `calls` holds the calls of all ranks, by rank, which must
// agree; for point-to-point it holds the send, then the receive.
uint64_t chunk_count(std::span<const rt_collective> calls);

// Carries out chunk 0..chunk_count()-1. A chunk reads and writes only its own elements, so that
// buffers may be shared as RT_COMM_IN_PLACE allows. The result does not depend on which threads run
// the chunks.
void run_chunk(std::span<const rt_collective> calls, uint64_t chunk);

}  // namespace collectives::local

#endif  // COLLECTIVES_LOCAL_CHUNKS_H_
