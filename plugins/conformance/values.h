// Operand data: deterministic random bytes, and how two results are compared.
#ifndef PLUGINS_CONFORMANCE_VALUES_H_
#define PLUGINS_CONFORMANCE_VALUES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "plugins/conformance/conformance.h"

namespace plugins::conformance {

using Bytes = std::vector<std::byte>;

// Dense row-major data of a tensor.
Bytes make_values(const rt_tensor_desc& tensor, const Values& values);

// Norm of (actual - expected) over the norm of expected (over 1 if that is 0); infinity if one has
// a NaN or infinity where the other has not. Integer types: 0 if equal, else infinity.
double relative_error(rt_dtype dtype, const Bytes& actual, const Bytes& expected);

}  // namespace plugins::conformance

#endif  // PLUGINS_CONFORMANCE_VALUES_H_
