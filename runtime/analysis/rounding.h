// What rounding may do to the result of one operation: where the terms of a sum cancel, few digits
// of it are left, however exact each of them is.
#ifndef RUNTIME_ANALYSIS_ROUNDING_H_
#define RUNTIME_ANALYSIS_ROUNDING_H_

#include <functional>
#include <vector>

#include "runtime/analysis/isolated.h"

namespace runtime::analysis {

// By how much rounding may change one output, as an absolute number: its 2-norm, and any element.
struct Rounding {
  double norm = 0, element = 0;
};

// The outputs of an operation by its definition; the operation may differ from the original in its
// operands, its name and its post-operations.
using Definition = std::function<HostTensors(const IsolatedOperation&)>;

// The largest of three estimates, for each output: how far it moves when every operand moves by
// `tolerance` of itself, up or down by chance; for sums of products, a few last bits of the sum of
// the magnitudes of all terms; for the gradients of normalisations, a few last bits of the terms
// that they take apart. `widened` has its floating operands in float64, `expected` is its result;
// `unit`: half a last bit of 1 in the type that the operation is computed in.
std::vector<Rounding> estimate_rounding(const Definition& definition,
                                        const IsolatedOperation& widened,
                                        const HostTensors& expected, double tolerance, double unit);

}  // namespace runtime::analysis

#endif  // RUNTIME_ANALYSIS_ROUNDING_H_
