// The data that ranks send and the data that must arrive, computed from rank and index.
#ifndef PLUGINS_CONFORMANCE_EXPECTATION_H_
#define PLUGINS_CONFORMANCE_EXPECTATION_H_

#include <optional>
#include <string>

#include "plugins/conformance/call.h"

namespace plugins::conformance {

// Fills the buffer `to` with the first `count` elements that world rank `member` sends. The values
// cover the range of the type, but sums over `ranks` ranks still fit.
void fill_sent(rt_dtype dtype, int32_t member, int32_t ranks, uint64_t count, void* to);

// Returns nullopt if `received` holds what rank `team.rank` must have after `call`, else a text
// about the first difference. Integers, minima, maxima and copies must be exact. Sums may differ by
// the rounding of their additions (in float32 for the 16-bit types) plus one rounding to the type.
std::optional<std::string> difference(const Team& team, const Call& call, const void* received,
                                      uint64_t count);

}  // namespace plugins::conformance

#endif  // PLUGINS_CONFORMANCE_EXPECTATION_H_
