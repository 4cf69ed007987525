// Where the keys of curves stand, beside the ends of the curves.
#ifndef TOOLS_REPORT_END_LABELS_H_
#define TOOLS_REPORT_END_LABELS_H_

#include <vector>

namespace tools::report {

// The end of a curve, as shares of the width and of the height of the drawing (0: the lower edge).
struct CurveEnd {
  double x = 0, y = 0;
};

// Returns at which share of the height the label of each end stands, in the order of the ends. Only
// labels that are near each other in x move, because the others do not overlap; these stay as close
// to their ends as the height of text lets them, in the order of their ends. page.js does the same.
std::vector<double> places_of_labels(const std::vector<CurveEnd>& ends);

}  // namespace tools::report

#endif  // TOOLS_REPORT_END_LABELS_H_
