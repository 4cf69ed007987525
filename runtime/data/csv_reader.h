// Divides CSV text into records and fields.
#ifndef RUNTIME_DATA_CSV_READER_H_
#define RUNTIME_DATA_CSV_READER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/source.h"

namespace runtime::data {

// One line of a table, or several lines if a quoted field contains line ends.
struct CsvRecord {
  int64_t line = 0;  // the line where it begins, from 1
  std::vector<std::string> fields;
};

// Reads the text block by block, so that memory grows with the longest record, which is bounded,
// and not with the text. One thread uses an object.
class CsvReader {
 public:
  // A longer field (in bytes) or a line of more fields is an error, because a small compressed file
  // could hold fields and lines that fill the memory.
  static constexpr std::size_t kMaxField = std::size_t{1} << 20;
  static constexpr std::size_t kMaxFields = std::size_t{1} << 20;

  // The source and the name are borrowed and must outlive the reader. A byte order mark is skipped.
  CsvReader(Source& source, const std::string& name);
  // Reads the next record and reuses the memory of `record`; empty lines are skipped. Returns false
  // at the end, where the checksum of compressed data has been verified. Throws DataError for
  // quotes that do not match.
  bool next(CsvRecord& record);

 private:
  void read_field(std::string& field, std::size_t column);
  void read_quoted(std::string& field, std::size_t column);
  void append(std::string& field, std::string_view text, std::size_t column) const;
  // The rest of the current block; a new block is read if it is empty, so the result is empty only
  // at the end of the text.
  std::string_view rest();
  bool at_end() { return rest().empty(); }
  bool at(char c) { return !at_end() && rest().front() == c; }
  bool at_line_end() { return at_end() || at('\n'); }
  void skip_blanks();

  Source& source_;
  const std::string& name_;
  Bytes block_;
  std::size_t at_ = 0, end_ = 0;  // positions in block_
  int64_t line_ = 1;
};

// Throws DataError "<name>: line 3, column 2: <message>". `column` counts from 0 here and from 1 in
// the message.
[[noreturn]] void fail_at_cell(const std::string& name, int64_t line, std::size_t column,
                               const std::string& message);

// Returns the number that the whole text is, or nothing. NaN and infinities count as numbers.
std::optional<double> to_number(std::string_view text);
std::optional<int64_t> to_integer(std::string_view text);
// Whether `value`, the number of `text`, has all digits of the text, if that is an integer.
bool keeps_integer(std::string_view text, double value);

// Returns the text in quotes, shortened and with unprintable characters replaced, for a message.
std::string quoted_for_message(std::string_view text);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_CSV_READER_H_
