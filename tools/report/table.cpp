// Writes tables as markup.
#include "tools/report/table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tools/plot/units.h"

namespace tools::report {

namespace {

Html head(const Table& table) {
  Html cells;
  for (const Column& column : table.columns) {
    std::vector<Attribute> attributes = {{"scope", "col"}};
    if (column.is_number) attributes.push_back({"class", "number"});
    cells += element("th", column.title, attributes);
  }
  return element("thead", element("tr", cells));
}

Html body_row(const Table& table, const std::vector<Cell>& row) {
  Html cells;
  for (size_t i = 0; i < row.size(); ++i) {
    const Cell& cell = row[i];
    const bool is_number = i < table.columns.size() && table.columns[i].is_number;
    std::string classes = cell.classes;
    if (is_number) classes += classes.empty() ? "number" : " number";
    std::vector<Attribute> attributes;
    if (i == 0) attributes.push_back({"scope", "row"});
    if (!classes.empty()) attributes.push_back({"class", classes});
    if (std::isfinite(cell.order))
      attributes.push_back({"data-order", plot::exact_text(cell.order)});
    cells += element(i == 0 ? "th" : "td", cell.content, attributes);
  }
  return element("tr", cells);
}

}  // namespace

Html to_html(const Table& table) {
  Html rows;
  for (const std::vector<Cell>& row : table.rows) rows += body_row(table, row);
  const Html inner = element("caption", table.caption) + head(table) + element("tbody", rows);
  std::vector<Attribute> attributes;
  if (table.sortable) attributes.push_back({"class", "sortable"});
  return element(
      "div", element("table", inner, attributes),
      {{"class", "scroll"}, {"tabindex", "0"}, {"role", "region"}, {"aria-label", table.caption}});
}

Html bar(const std::string& text, double share, int colour) {
  Html html;
  if (std::isfinite(share)) {
    char width[32];
    std::snprintf(width, sizeof(width), "width:%.4g%%", std::clamp(share, 0.0, 1.0) * 100);
    html = element("span", Html(),
                   {{"class", "bar c" + std::to_string(colour % 8)}, {"style", width}});
  }
  return element("span", html + element("span", text, {{"class", "bar-text"}}),
                 {{"class", "with-bar"}});
}

}  // namespace tools::report
