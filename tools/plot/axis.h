// The range and the labels of an axis.
#ifndef TOOLS_PLOT_AXIS_H_
#define TOOLS_PLOT_AXIS_H_

#include <vector>

#include "tools/plot/units.h"

namespace tools::plot {

// An axis from `low` to `high`, low < high, with at least one label in between.
struct Axis {
  double low = 0, high = 1;
  bool logarithmic = false;  // then low > 0
  std::vector<double> ticks;
  double step = 0;  // distance of two ticks; of the first two if logarithmic

  // Where a value is, from 0 at `low` to 1 at `high`; outside of that if the value is.
  double place(double value) const;
  double at(double place) const;  // the inverse
};

// The range of values of an axis, which grows by those that are added. Values that are not finite
// are left out.
struct Range {
  double low, high;
  Range();
  void add(double value);
  bool empty() const { return low > high; }
};

// An axis over exactly this range, with about `count` ticks at multiples of 1, 2 or 5 times a power
// of ten, in KiB, MiB, minutes or hours if the values are so large. What is counted has ticks at
// whole numbers. A range without extent is widened.
Axis linear_axis(Range range, int count, Unit unit = Unit::kNumber);
// The same, where the range is widened to the ticks around it.
Axis rounded_axis(Range range, int count, Unit unit = Unit::kNumber);
// Ticks at powers of ten, or at 1, 2 and 5 times these if there are few. `range` must be above 0.
Axis logarithmic_axis(Range range);

}  // namespace tools::plot

#endif  // TOOLS_PLOT_AXIS_H_
