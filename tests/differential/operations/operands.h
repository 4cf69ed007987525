// Makes the elements of the operands of a recipe, and converts them to and from float64.
#ifndef TESTS_DIFFERENTIAL_OPERATIONS_OPERANDS_H_
#define TESTS_DIFFERENTIAL_OPERATIONS_OPERANDS_H_

#include <vector>

#include "plugins/conformance/values.h"
#include "tests/differential/operations/family.h"

namespace differential {

using plugins::conformance::Bytes;

// Dense elements, in the types of the case.
struct Operands {
  std::vector<Bytes> inputs;
  std::vector<Bytes> forward_inputs;  // of the forward operation, if the case has one
};

// Makes the operands of `recipe`. Inputs that forward and backward have in common (the same
// dimensions and Values) hold the same elements. Plant::operand counts the inputs first, then those
// of forward.
Operands make_operands(const Recipe& recipe, const Case& c);

bool is_floating(rt_dtype dtype);
// Conversions from and to float64. 16-bit types round to nearest even; a number that overflows the
// type becomes infinite.
std::vector<double> decode(rt_dtype dtype, const Bytes& bytes);
Bytes encode(rt_dtype dtype, const std::vector<double>& values);
// The nearest number of that type.
double rounded_to(rt_dtype dtype, double value);
double largest_number(rt_dtype dtype);
double smallest_normal_number(rt_dtype dtype);

// The same operation with every floating-point operand in float64, and the operands' elements
// converted likewise.
plugins::host::Operation widened(plugins::host::Operation operation);
std::vector<Bytes> widened(const plugins::host::Operation& operation,
                           const std::vector<Bytes>& data);

}  // namespace differential

#endif  // TESTS_DIFFERENTIAL_OPERATIONS_OPERANDS_H_
