// Tables of a report.
#ifndef TOOLS_REPORT_TABLE_H_
#define TOOLS_REPORT_TABLE_H_

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "tools/plot/units.h"
#include "tools/report/html.h"

namespace tools::report {

struct Column {
  std::string title;
  bool is_number = false;  // then it is set to the right
};

// The content of a cell, with the number by which page.js sorts the rows.
struct Cell {
  explicit Cell(const std::string& text) : content(Html::text(text)) {}
  explicit Cell(Html html) : content(std::move(html)) {}
  Cell(double value, plot::Unit unit) : content(Html::text(to_text(value, unit))), order(value) {}
  Html content;
  double order = std::numeric_limits<double>::quiet_NaN();  // NaN: by its text
  std::string classes = {};
};

struct Table {
  std::string caption;  // for those who cannot see what stands above it
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;  // the first cell is the head of its row
  bool sortable = false;
};

// A table in a box that scrolls when it is too wide or too long.
Html to_html(const Table& table);

// A text with a bar behind it whose length is `share`, from 0 to 1; none if that is NaN.
Html bar(const std::string& text, double share, int colour = 0);

}  // namespace tools::report

#endif  // TOOLS_REPORT_TABLE_H_
