// What the ranks send and what must arrive, in closed form.
#ifndef PLUGINS_CONFORMANCE_EXPECTATION_H_
#define PLUGINS_CONFORMANCE_EXPECTATION_H_

#include <optional>
#include <string>

#include "plugins/conformance/session.h"

namespace plugins::conformance {

// Elements first.. of what world rank `member` sends, written to `to`. Values are spread over the
// type, and so that sums over `ranks` ranks fit.
void fill_sent(rt_dtype dtype, int32_t member, int32_t ranks, uint64_t count, void* to);

// nullopt if `received` is what rank `team.rank` must have after `call`, else the first difference.
// Integers, minima, maxima and copies are exact. Sums are allowed the rounding of their additions
// (of float32 for the 16-bit types) and one rounding to the type.
std::optional<std::string> difference(const Team& team, const Call& call, const void* received,
                                      uint64_t count);

}  // namespace plugins::conformance

#endif  // PLUGINS_CONFORMANCE_EXPECTATION_H_
