// Points of a curve, and how many of them are drawn.
#ifndef TOOLS_REPORT_SERIES_H_
#define TOOLS_REPORT_SERIES_H_

#include <cstddef>
#include <limits>
#include <vector>

namespace tools::report {

// A point of a curve over the steps of a run. y is finite; epoch and seconds are NaN if unknown.
struct Point {
  double x = 0, y = 0;
  double epoch = std::numeric_limits<double>::quiet_NaN();    // epochs done, with a fraction
  double seconds = std::numeric_limits<double>::quiet_NaN();  // of training, until this point
  // The mean of the points that this one stands for; NaN if it stands for itself only.
  double mean = std::numeric_limits<double>::quiet_NaN();
};

// At most `most` of the points (at least 4), in their order. The first and the last stay, and of
// each equally long run of the others the one with the least and the one with the largest y, so
// that no peak gets lost. Each has the mean of its run; if nothing is left out, there are no means.
std::vector<Point> decimate(const std::vector<Point>& points, size_t most);

}  // namespace tools::report

#endif  // TOOLS_REPORT_SERIES_H_
