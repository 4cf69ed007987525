// Tables that fit the terminal.
#ifndef RUNTIME_TERMINAL_TABLE_H_
#define RUNTIME_TERMINAL_TABLE_H_

#include <string>
#include <vector>

#include "runtime/terminal/text.h"

namespace runtime::terminal {

// What stands below a title.
struct Column {
  enum class Kind { kText, kNumber };
  std::string title;
  Kind kind = Kind::kText;  // numbers stand at the right and are never shortened
  // Which column goes first where even short ones are too wide: that with the least number above 0.
  // 0: it is never left out.
  int leave_out = 0;
  Keep keep = Keep::kBegin;  // which part of a long text, or of the title of numbers, stays
};

// Columns that are as wide as what they contain; one with nothing below its title is not shown.
// Where the terminal is narrower, first texts are shortened, then columns are left out, which a
// line below the table says.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Adds a line with one cell for each column.
  void add(std::vector<std::string> cells);
  // Adds a line whose first cell takes the place of all columns before those of `last`.
  void add_wide(std::string first, std::vector<std::string> last);
  bool empty() const { return rows_.empty(); }

  // Returns the lines for a terminal of so many columns; 0: as wide as the table.
  std::string text(int columns) const;
  // Prints them on the standard output.
  void print() const;

 private:
  struct Row {
    std::vector<std::string> cells;
    size_t wide = 1;  // how many columns the first cell takes
    bool titles = false;
  };
  struct Layout {
    std::vector<size_t> widths;  // by column
    std::vector<bool> shown;
    size_t gap = 2;
    size_t total(size_t first, size_t end) const;
    size_t total() const { return total(0, widths.size()); }
  };

  bool is_empty(size_t column) const;
  size_t most(size_t column) const;   // the columns that all of its text takes
  size_t least(size_t column) const;  // the fewest that it can do with
  Layout layout(size_t columns) const;
  void leave_out(Layout& layout, size_t columns) const;
  void shorten(Layout& layout, size_t columns) const;
  std::string line(const Row& row, const Layout& layout) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

}  // namespace runtime::terminal

#endif  // RUNTIME_TERMINAL_TABLE_H_
