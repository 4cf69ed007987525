// Operand data from a deterministic generator, and the comparison of two results.
#ifndef PLUGINS_CONFORMANCE_VALUES_H_
#define PLUGINS_CONFORMANCE_VALUES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "plugins/conformance/conformance.h"

namespace plugins::conformance {

using Bytes = std::vector<std::byte>;

// Returns dense row-major data for a tensor.
Bytes make_values(const rt_tensor_desc& tensor, const Values& values);

// Norm of (actual - expected) divided by the norm of expected, or by 1 if that is 0. Infinity if
// only one of the two has a NaN or infinity at some position. Integer types: 0 if equal, else
// infinity.
double relative_error(rt_dtype dtype, const Bytes& actual, const Bytes& expected);

}  // namespace plugins::conformance

#endif  // PLUGINS_CONFORMANCE_VALUES_H_
