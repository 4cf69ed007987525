// NaN, infinities and other special numbers, and where they lie in an operand.
#ifndef PLUGINS_CONFORMANCE_SPECIAL_H_
#define PLUGINS_CONFORMANCE_SPECIAL_H_

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "plugins/conformance/builder.h"

namespace plugins::conformance {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Named = std::pair<std::string, double>;

// NaN, the infinities, -0, and 1e30 and -1e30 if the type can represent them.
inline std::vector<Named> special_numbers(rt_dtype dtype) {
  std::vector<Named> list = {{"NaN", kNaN}, {"inf", kInfinity}, {"-inf", -kInfinity}, {"-0", -0.0}};
  if (dtype != RT_FLOAT16) list.insert(list.end(), {{"1e30", 1e30}, {"-1e30", -1e30}});
  return list;
}

// `values` with the number `special` in every `every`-th row of `row` elements, beginning with row
// `at`.
inline Values with(double special, int64_t every, int64_t at, int64_t row = 1, Values values = {}) {
  values.special = special;
  values.special_every = every;
  values.special_at = at;
  values.special_row = row;
  return values;
}

// Only numbers below the smallest normal number of float32 or float64.
inline Values denormals(rt_dtype dtype) {
  const double largest = dtype == RT_FLOAT64 ? 1e-310 : 1e-39;
  return {-largest, largest};
}

}  // namespace plugins::conformance

#endif  // PLUGINS_CONFORMANCE_SPECIAL_H_
