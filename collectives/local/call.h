// What one rank asks for: is it valid, does it agree with that of another rank, in words.
#ifndef COLLECTIVES_LOCAL_CALL_H_
#define COLLECTIVES_LOCAL_CALL_H_

#include <cstdint>
#include <string>

#include "rt/communicator.h"

namespace collectives::local {

// A collective of our own, no other plugin has it: ranks hand each other colour (in `reduction`)
// and key (in `peer`).
inline constexpr int32_t kSplit = 100;

bool is_pair(const rt_collective& call);  // send or receive
bool reduces(const rt_collective& call);

// Throws rt::sdk::Error for what no rank may ask for.
void check_call(const rt_collective& call, int32_t rank, int32_t size);

// Whether two ranks ask for the same; a send and its receive do.
bool agree(const rt_collective& a, const rt_collective& b);

// "all_reduce of 1000 float32, sum"
std::string describe(const rt_collective& call);

}  // namespace collectives::local

#endif  // COLLECTIVES_LOCAL_CALL_H_
