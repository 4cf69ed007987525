// Is a result what the reference computes in float64, up to what rounding may do?
//
// An output is wrong if the norm of its error is above the norm of what is expected times what the
// device claims in `query`, and above eight last bits of the terms whose sum it is; unless relative
// changes of that same size in the operands change the
// expected result as much: where a sum cancels, no rounding sum has the digits that are asked for.
// Numbers above 1e12 are compared among themselves, so that one of them does not hide the others,
// but where an implementation may mix them (NotFinite::kMaySpread). NaN and infinities must stand
// where the reference has them; where the number is beyond the type, any infinity or NaN will do.
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
  bool exact = false;  // every element, with the sign of zeros
  NotFinite not_finite = NotFinite::kSame;
  double terms = 0;        // see Family
  bool mixes_all = false;  // large numbers are compared with the others
  // The expected result of operands that differ by `tolerance`; called where it is needed only.
  std::function<const std::vector<double>&()> disturbed = nullptr;
  // The sum of the magnitudes of the terms of each element; nullptr: not known. Called as the
  // other.
  std::function<const std::vector<double>&()> magnitudes = nullptr;
};

// nullopt if `actual`, elements of type `dtype`, is right; else what is wrong with it.
std::optional<std::string> difference(rt_dtype dtype, const Bytes& actual,
                                      const std::vector<double>& expected,
                                      const Allowance& allowance);

}  // namespace differential

#endif  // TESTS_DIFFERENTIAL_OPERATIONS_COMPARE_H_
