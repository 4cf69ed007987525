// Plots of points: as text for a terminal and as SVG for a browser.
#ifndef TOOLS_PLOT_PLOT_H_
#define TOOLS_PLOT_PLOT_H_

#include <string>
#include <utility>
#include <vector>

#include "tools/plot/axis.h"

namespace tools::plot {

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

// The axis of the first or of the second coordinates, over all points that the plot can show.
Axis axis_of(const Plot& plot, bool second);

// Returns whether the plot can show this point.
inline bool has_point(const Plot& plot, const std::pair<double, double>& point) {
  return (!plot.log_x || point.first > 0) && (!plot.log_y || point.second > 0);
}

}  // namespace tools::plot

#endif  // TOOLS_PLOT_PLOT_H_
