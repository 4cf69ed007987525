// What a rank sends in a collective, and what it makes of the bytes that arrive.
#ifndef COLLECTIVE_H_
#define COLLECTIVE_H_

#include <vector>

#include "rt/communicator.h"
#include "transport.h"

namespace template_communicator {

// The place of this rank among those that call.
struct Place {
  int32_t rank = 0;
  int32_t size = 1;
};

// The types in which this plugin reduces, as a mask of RT_DTYPE_BIT.
inline constexpr uint64_t kReducedTypes = RT_DTYPE_BIT(RT_FLOAT32) | RT_DTYPE_BIT(RT_FLOAT64) |
                                          RT_DTYPE_BIT(RT_INT32) | RT_DTYPE_BIT(RT_INT64);

// Throws Error unless the plugin does this collective: its kind, type, reduction and peer.
void check(const rt_collective& call, const Place& place);

// The number of bytes that each rank sends; 0 for a rank that sends nothing.
size_t sent_bytes(const rt_collective& call, const Place& place, int32_t sender);

// The ranks whose bytes this rank needs, in the order in which they are combined.
std::vector<int32_t> senders(const rt_collective& call, const Place& place);

// Writes the result into call.receive. `messages` are those of senders(), in their order. Sums are
// made in the order of ranks, so that every rank has the same bits.
void combine(const rt_collective& call, const Place& place, const std::vector<Bytes>& messages);

}  // namespace template_communicator

#endif  // COLLECTIVE_H_
