// Numbers as people read them.
#ifndef TOOLS_PLOT_UNITS_H_
#define TOOLS_PLOT_UNITS_H_

#include <string>

namespace tools::plot {

// What a number counts, which decides how it is written.
enum class Unit {
  kNumber,    // a loss, a learning rate: 0.418, 1e-05
  kCount,     // a step, a number of samples: 25,177
  kBytes,     // 1.5 MiB
  kSeconds,   // 1 h 02 min, 3.2 s, 12 us
  kFraction,  // 0.5 is 50 %
};

// The value with about four significant digits. "-" if there is none (NaN); "infinite" for an
// infinity.
std::string to_text(double value, Unit unit);
// The same, shorter, for the labels of an axis: 25k for 25,000. `step` is the distance of two
// labels, which decides how many digits are needed.
std::string to_label(double value, Unit unit, double step);
// The value with all of its digits.
std::string exact_text(double value);
// A share of a side as a length of CSS: "12.5%".
std::string percent_of_side(double share);
// The name under which the page's script knows the unit.
std::string name_of(Unit unit);

}  // namespace tools::plot

#endif  // TOOLS_PLOT_UNITS_H_
