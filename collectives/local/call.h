// Checks the call of one rank, compares it with the call of another rank, and describes it in
// words.
#ifndef COLLECTIVES_LOCAL_CALL_H_
#define COLLECTIVES_LOCAL_CALL_H_

#include <cstdint>
#include <string>

#include "rt/communicator.h"

namespace collectives::local {

// The kind of a collective with which this plugin implements rt_communicator_api.split, beside the
// RT_... kinds of the contract: ranks exchange the arguments of the split. rt_collective has no
// fields for them, so the colour travels in `reduction` and the key in `peer`.
inline constexpr int32_t kSplit = 100;

// Throws rt::sdk::Error for a call that is invalid on this rank whatever the other ranks call.
void check_call(const rt_collective& call, int32_t rank, int32_t size);

// Whether the calls of two ranks belong together: the same collective, or a send and its receive.
bool agree(const rt_collective& a, const rt_collective& b);

// For example "all_reduce of 1000 float32, sum".
std::string describe(const rt_collective& call);

}  // namespace collectives::local

#endif  // COLLECTIVES_LOCAL_CALL_H_
