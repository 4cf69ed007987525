// Line charts that any width stretches: the curves are SVG, the labels text of the page. They are
// complete without JavaScript; page.js adds values under the pointer and other axes.
#ifndef TOOLS_REPORT_CHART_H_
#define TOOLS_REPORT_CHART_H_

#include <string>
#include <vector>

#include "tools/plot/units.h"
#include "tools/report/html.h"
#include "tools/report/series.h"

namespace tools::report {

struct Line {
  std::string name = {};
  std::string key = {};   // a short name that stands at the end of the curve: "A"; "" for none
  int colour = 0;         // any number from 0; the palette repeats
  bool dots = false;      // each point is marked
  bool connected = true;  // the points are joined by a line; if not, they are marked
  bool dashed = false;
  std::vector<Point> points = {};  // by x, ascending
};

struct Chart {
  std::string id;  // of the element: letters, digits, '-' and '_'
  std::string title;
  std::string x_title = "step";
  plot::Unit x_unit = plot::Unit::kCount, y_unit = plot::Unit::kNumber;
  bool over_steps = true;     // the axis can be changed to epochs and times
  bool from_zero = false;     // the y axis begins at 0
  bool stepped = false;       // y keeps its value up to the next x
  size_t most_points = 1000;  // of a line; more are decimated
  std::vector<Line> lines;
};

// A <figure>. A chart whose lines have no points is empty.
Html draw(const Chart& chart);

// The class of the n-th colour.
std::string colour_class(int colour);
inline constexpr int kColours = 8;

}  // namespace tools::report

#endif  // TOOLS_REPORT_CHART_H_
