// Decides whether a result is what the reference computes in float64, up to rounding.
//
// An output is wrong if the norm of its error is above both of two bounds: the norm of the expected
// result times the tolerance that the device claims in `query`, and eight last bits of the terms
// that are added up. It is still right if relative changes of the operands by that tolerance change
// the expected result as much: where a sum cancels, no rounded sum has the digits that the
// tolerance asks for. Numbers above 1e12 are compared among themselves, so that one of them does
// not hide the others, except where an implementation may mix them (NotFinite::kMaySpread). NaN and
// infinities must stand where the reference has them; where the expected number overflows the type,
// any infinity or NaN is accepted.
#ifndef TESTS_DIFFERENTIAL_OPERATIONS_COMPARE_H_
#define TESTS_DIFFERENTIAL_OPERATIONS_COMPARE_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/differential/operations/operands.h"

namespace differential {

struct Allowance {
  double tolerance = 0;
  bool exact = false;  // compares element by element, with the sign of zeros
  NotFinite not_finite = NotFinite::kSame;
  double terms = 0;        // the norm of the terms; Family::terms defines it
  bool mixes_all = false;  // large numbers are compared together with the others
  // The expected result for operands that are disturbed by `tolerance`. It is called only if
  // needed.
  std::function<const std::vector<double>&()> disturbed = nullptr;
  // The sum of the magnitudes of the terms of each element; nullptr if it is not known. It is
  // called only if needed.
  std::function<const std::vector<double>&()> magnitudes = nullptr;
};

// Returns nullopt if `actual`, whose elements have the type `dtype`, is right; otherwise a text
// that says what is wrong.
std::optional<std::string> difference(rt_dtype dtype, const Bytes& actual,
                                      const std::vector<double>& expected,
                                      const Allowance& allowance);

}  // namespace differential

#endif  // TESTS_DIFFERENTIAL_OPERATIONS_COMPARE_H_
