// By how much rounding may change the result of one operation. If the terms of a sum cancel, few
// digits of the sum are left, however exact each term is.
#ifndef TOOLS_VERIFY_ROUNDING_H_
#define TOOLS_VERIFY_ROUNDING_H_

#include <functional>
#include <vector>

#include "tools/verify/isolated.h"

namespace runtime::verify {

// By how much rounding may change one output, in absolute numbers: in the 2-norm, and in any
// element.
struct Rounding {
  double norm = 0, element = 0;
};

// Returns the outputs that the reference device computes. The operation may differ from the
// original in its operands, its name and its post-operations.
using Definition = std::function<HostTensors(const IsolatedOperation&)>;

// Returns the largest of three estimates for each output:
//  - how much the output changes if every operand changes by the relative amount `tolerance`, up or
//    down at random;
//  - for sums of products, a small multiple of `unit` times the sum of the magnitudes of all terms;
//  - for gradients of normalisations, a small multiple of `unit` times the magnitude of the terms
//    that are subtracted from each other.
// `widened` has its floating-point operands in float64, and `expected` is its result; `unit` is
// half the last bit of 1 in the type in which the operation is computed.
std::vector<Rounding> estimate_rounding(const Definition& definition,
                                        const IsolatedOperation& widened,
                                        const HostTensors& expected, double tolerance, double unit);

}  // namespace runtime::verify

#endif  // TOOLS_VERIFY_ROUNDING_H_
