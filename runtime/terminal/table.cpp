// Lays out columns, shortens texts, and leaves columns out until a table fits.
#include "runtime/terminal/table.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "runtime/terminal/terminal.h"

namespace runtime::terminal {

namespace {

constexpr size_t kLeastText = 12, kLeastTitle = 11;  // columns to which texts are shortened

}  // namespace

void Table::add(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back({std::move(cells)});
}

void Table::add_wide(std::string first, std::vector<std::string> last) {
  const size_t wide = columns_.size() - last.size();
  std::vector<std::string> cells(columns_.size());
  cells[0] = std::move(first);
  std::move(last.begin(), last.end(), cells.begin() + static_cast<std::ptrdiff_t>(wide));
  rows_.push_back({std::move(cells), wide});
}

bool Table::is_empty(size_t column) const {
  return !rows_.empty() && std::all_of(rows_.begin(), rows_.end(),
                                       [&](const Row& row) { return row.cells[column].empty(); });
}

size_t Table::most(size_t column) const {
  size_t most = width(columns_[column].title);
  for (const Row& row : rows_)
    if (column >= row.wide || row.wide == 1) most = std::max(most, width(row.cells[column]));
  return most;
}

size_t Table::least(size_t column) const {
  if (columns_[column].kind == Column::Kind::kText) return std::min(most(column), kLeastText);
  size_t least = std::min(width(columns_[column].title), kLeastTitle);
  for (const Row& row : rows_)
    if (column >= row.wide || row.wide == 1) least = std::max(least, width(row.cells[column]));
  return least;
}

size_t Table::Layout::total(size_t first, size_t end) const {
  size_t sum = 0;
  for (size_t i = first; i < end; ++i)
    if (shown[i]) sum += widths[i] + (sum > 0 ? gap : 0);
  return sum;
}

Table::Layout Table::layout(size_t columns) const {
  Layout layout;
  for (size_t i = 0; i < columns_.size(); ++i) {
    layout.widths.push_back(most(i));
    layout.shown.push_back(!is_empty(i));
  }
  if (columns == 0 || layout.total() <= columns) return layout;
  layout.gap = 1;
  leave_out(layout, columns);
  shorten(layout, columns);
  return layout;
}

// Leaves out as many columns as do not fit when all are as short as they can be.
void Table::leave_out(Layout& layout, size_t columns) const {
  Layout shortest = layout;
  for (size_t i = 0; i < columns_.size(); ++i) shortest.widths[i] = least(i);
  while (shortest.total() > columns) {
    size_t first = columns_.size();
    for (size_t i = 0; i < columns_.size(); ++i) {
      const int rank = columns_[i].leave_out;
      if (!shortest.shown[i] || rank == 0) continue;
      if (first == columns_.size() || rank < columns_[first].leave_out) first = i;
    }
    if (first == columns_.size()) break;
    shortest.shown[first] = false;
  }
  layout.shown = shortest.shown;
}

// Takes from the widest column that can give until all fit.
void Table::shorten(Layout& layout, size_t columns) const {
  while (layout.total() > columns) {
    size_t widest = columns_.size();
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (!layout.shown[i] || layout.widths[i] <= least(i)) continue;
      if (widest == columns_.size() || layout.widths[i] > layout.widths[widest]) widest = i;
    }
    if (widest == columns_.size()) return;
    --layout.widths[widest];
  }
}

std::string Table::line(const Row& row, const Layout& layout) const {
  std::string text;
  const auto add = [&](const std::string& cell, size_t columns, Keep keep, bool right) {
    if (!text.empty()) text += std::string(layout.gap, ' ');
    text += padded(shortened(cell, columns, keep), columns, right);
  };
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (i == 0 && row.wide > 1) {
      add(row.cells[0], layout.total(0, row.wide), Keep::kBegin, false);
      i = row.wide - 1;
    } else if (layout.shown[i]) {
      const bool number = columns_[i].kind == Column::Kind::kNumber;
      const Keep keep = row.titles && !number ? Keep::kBegin : columns_[i].keep;
      add(row.cells[i], layout.widths[i], keep, number);
    }
  }
  return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
}

std::string Table::text(int columns) const {
  const Layout layout = this->layout(static_cast<size_t>(std::max(columns, 0)));
  Row head{{}, 1, true};
  std::string left_out;
  for (size_t i = 0; i < columns_.size(); ++i) {
    head.cells.push_back(columns_[i].title);
    if (!layout.shown[i] && !is_empty(i))
      left_out += (left_out.empty() ? "" : ", ") + columns_[i].title;
  }
  std::string text = line(head, layout);
  for (const Row& row : rows_) text += line(row, layout);
  if (left_out.empty()) return text;
  return text + folded("not shown in " + std::to_string(columns) + " columns: " + left_out +
                           " (a wider terminal or a pipe gets all)\n",
                       columns);
}

void Table::print() const { std::fputs(text(columns(STDOUT_FILENO)).c_str(), stdout); }

}  // namespace runtime::terminal
