// Cuts CSV text into records and fields.
#ifndef RUNTIME_DATA_CSV_READER_H_
#define RUNTIME_DATA_CSV_READER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/source.h"

namespace runtime::data {

// One line, or several where a quoted field holds line ends.
struct CsvRecord {
  int64_t line = 0;  // where it begins, from 1
  std::vector<std::string> fields;
};

// Reads block by block: memory does not grow with the length of the text, but with its longest
// record, which is bounded.
class CsvReader {
 public:
  // A field of more bytes, or a line of more fields, is an error: a small compressed file could
  // hold fields and lines that fill the memory.
  static constexpr std::size_t kMaxField = std::size_t{1} << 20;
  static constexpr std::size_t kMaxFields = std::size_t{1} << 20;

  // Source and name are borrowed. A byte order mark is skipped.
  CsvReader(Source& source, const std::string& name);
  // Reuses the memory of `record`. False at the end, where compressed data have been checked; empty
  // lines are skipped. Throws DataError for quotes that do not match.
  bool next(CsvRecord& record);

 private:
  void read_field(std::string& field, std::size_t column);
  void read_quoted(std::string& field, std::size_t column);
  void append(std::string& field, std::string_view text, std::size_t column) const;
  // What is not consumed yet of the current block; empty at the end of the text only.
  std::string_view rest();
  bool at_end() { return rest().empty(); }
  bool at(char c) { return !at_end() && rest().front() == c; }
  bool at_line_end() { return at_end() || at('\n'); }
  void skip_blanks();

  Source& source_;
  const std::string& name_;
  Bytes block_;
  std::size_t at_ = 0, end_ = 0;  // within the block
  int64_t line_ = 1;
};

// Throws DataError "<name>: line 3, column 2: <message>"; `column` counts from 0 here.
[[noreturn]] void fail_at_cell(const std::string& name, int64_t line, std::size_t column,
                               const std::string& message);

// The number that the whole text is; NaN and infinities count as numbers.
std::optional<double> to_number(std::string_view text);
std::optional<int64_t> to_integer(std::string_view text);

// The text in quotes, shortened and made printable for a message.
std::string quoted_for_message(std::string_view text);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_CSV_READER_H_
