// This file has the data that the gradient of attention takes from the forward.
#ifndef BACKENDS_GPU_ATTENTION_SAVED_H_
#define BACKENDS_GPU_ATTENTION_SAVED_H_

#include "backends/gpu/attention_operands.h"
#include "backends/gpu/lanes.h"

namespace backends::gpu {

// The data of one query that its gradient needs: the logarithm that the forward saved, to base 2,
// and delta = dy . y.
template <typename C>
struct SavedOfQuery {
  C log_sum, delta;
  template <typename T>
  GPU_DEVICE static SavedOfQuery of(const AttentionOperands<T>& o, int64_t line, int query) {
    if (query >= o.queries()) return {C(0), C(0)};
    const int64_t at = line * o.s.t + query;
    return {within_rounding(o.log_sums[at] * C(kLog2E)), o.delta[at]};
  }
  // A logarithm so large that its type keeps no fraction is as far from that of the largest score
  // as both are rounded. A little less of it gives the largest score the weight 1, to which weights
  // are limited, instead of any power of 2.
  GPU_DEVICE static C within_rounding(C log_sum) {
    constexpr C kStep = sizeof(C) == 8 ? C(0x1p-52) : C(0x1p-23), kNoFraction = C(0.25) / kStep;
    const C size = log_sum < C(0) ? -log_sum : log_sum;
    return size > kNoFraction && size < C(INFINITY) ? log_sum - 64 * kStep * size : log_sum;
  }
  // Replaces the score s = q . k by ds / scale = p (kept dp - delta), and dp = dy . v by kept p. A
  // query that does not see the key has 0 for both, whatever it holds.
  GPU_DEVICE void to_gradients(C& s, C& dp, C factor, bool sees, C kept) const {
    const C e = s * factor - log_sum, p = exp2_of(e > C(0) ? C(0) : e);  // NaN stays NaN
    const C ds = p * (kept * dp - delta);
    s = sees ? ds : C(0);
    dp = sees ? kept * p : C(0);
  }
};

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_ATTENTION_SAVED_H_
