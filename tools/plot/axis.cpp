// Chooses nice steps for ticks, widens ranges to them, and labels them.
#include "tools/plot/axis.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tools::plot {

namespace {

// The least of 1, 2, 5 and 10 times a power of ten that is not below `least`.
double nice_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

// A range with an extent that double can divide.
Range widened(Range range) {
  constexpr double kMost = 1e300;
  if (range.empty()) return range.low = 0, range.high = 1, range;
  range.low = std::clamp(range.low, -kMost, kMost);
  range.high = std::clamp(range.high, -kMost, kMost);
  const double size = std::max(std::abs(range.low), std::abs(range.high));
  if (range.high - range.low > size * 1e-9) return range;
  const double by = size > 1e-300 ? size * 0.1 : 1;
  range.low -= by;
  range.high += by;
  return range;
}

// What labels of values up to `high` count in: bytes in KiB, seconds in minutes.
double factor_of(Unit unit, double high) {
  double factor = 1;
  if (unit == Unit::kSeconds && high >= 7200) return 3600;
  if (unit == Unit::kSeconds && high >= 120) return 60;
  while (unit == Unit::kBytes && high / factor >= 1024) factor *= 1024;
  return factor;
}

double step_of(const Range& range, int count, Unit unit) {
  const double factor = factor_of(unit, range.high);
  const double step = nice_step((range.high - range.low) / count / factor) * factor;
  return unit == Unit::kCount ? std::max(step, 1.0) : step;
}

void add_ticks(Axis& axis) {
  const double first = std::ceil(axis.low / axis.step - 1e-9);
  const double last = std::floor(axis.high / axis.step + 1e-9);
  for (double i = first; i <= last; ++i) axis.ticks.push_back(i == 0 ? 0 : i * axis.step);
}

}  // namespace

Range::Range()
    : low(std::numeric_limits<double>::infinity()),
      high(-std::numeric_limits<double>::infinity()) {}

void Range::add(double value) {
  if (!std::isfinite(value)) return;
  low = std::min(low, value);
  high = std::max(high, value);
}

double Axis::place(double value) const {
  if (!logarithmic) return (value - low) / (high - low);
  return (std::log10(value) - std::log10(low)) / (std::log10(high) - std::log10(low));
}

double Axis::at(double place) const {
  return logarithmic ? low * std::pow(high / low, place) : low + place * (high - low);
}

Axis linear_axis(Range range, int count, Unit unit) {
  range = widened(range);
  Axis axis;
  axis.low = range.low;
  axis.high = range.high;
  axis.step = step_of(range, count, unit);
  add_ticks(axis);
  return axis;
}

Axis rounded_axis(Range range, int count, Unit unit) {
  range = widened(range);
  Axis axis;
  axis.step = step_of(range, count, unit);
  axis.low = std::floor(range.low / axis.step + 1e-9) * axis.step;
  axis.high = std::ceil(range.high / axis.step - 1e-9) * axis.step;
  add_ticks(axis);
  return axis;
}

Axis logarithmic_axis(Range range) {
  Axis axis;
  axis.logarithmic = true;
  axis.low = std::clamp(range.low, 1e-300, 1e299);
  axis.high = std::clamp(range.high, axis.low, 1e300);
  if (axis.high < axis.low * 1.01) axis.low /= 2, axis.high *= 2;
  const double first = std::floor(std::log10(axis.low));
  const double last = std::ceil(std::log10(axis.high));
  const double each = std::max(1.0, std::ceil((last - first) / 6));
  for (double power = first; power <= last; power += each) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor > 1 && last - first > 2) break;
      const double tick = factor * std::pow(10, power);
      if (tick >= axis.low * (1 - 1e-9) && tick <= axis.high * (1 + 1e-9))
        axis.ticks.push_back(tick);
    }
  }
  if (axis.ticks.empty()) axis.ticks = {axis.low, axis.high};
  axis.step = axis.ticks[0] / 10;
  return axis;
}

}  // namespace tools::plot
