// Plots of points: as text for a terminal and as SVG for a browser.
#ifndef TOOLS_TRIALS_PLOT_H_
#define TOOLS_TRIALS_PLOT_H_

#include <string>
#include <utility>
#include <vector>

namespace tools::trials {

// Points that belong together; a line joins them in the SVG, in their order.
struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // finite numbers
};

// What is drawn. A logarithmic axis leaves out points that are not above 0.
struct Plot {
  std::string title, x_label, y_label;
  bool log_x = false, log_y = false;
  std::vector<Series> series = {};
};

// Returns the plot as lines of text, at most `width` x `height` characters without axes and labels.
// No line has more than `columns` columns, so that a terminal does not move the marks to other
// lines; 0: any number. Each series has a letter, and '*' marks a place that several series share.
// Returns "" if there is no point.
std::string text_plot(const Plot& plot, int columns = 0, int width = 64, int height = 16);

// Returns the plot as one SVG element, complete as a file, without scripts and without references
// to other files. A plot without points has axes only.
std::string svg_plot(const Plot& plot);

// The range of an axis and the place of numbers in it, which both kinds of plots share.
class Axis {
 public:
  // `second`: whether the axis is that of the second coordinates.
  Axis(const Plot& plot, bool second);
  bool empty() const { return low_ > high_; }
  bool has(double value) const { return !log_ || value > 0; }
  double place(double value) const;  // from 0 to 1
  double at(double place) const;     // the inverse
  // Numbers for labels: round ones; on a logarithmic axis powers of ten and, if it has fewer than
  // two, also 2 and 5 times these; whole ones where all values are whole.
  std::vector<double> ticks() const;

 private:
  double scaled(double value) const;
  bool log_, whole_ = true;
  double low_, high_;  // of scaled values
};

// Returns whether the axis has this point.
inline bool has_point(const Axis& x, const Axis& y, const std::pair<double, double>& point) {
  return x.has(point.first) && y.has(point.second);
}

}  // namespace tools::trials

#endif  // TOOLS_TRIALS_PLOT_H_
