// Cuts CSV text into records and fields.
#ifndef RUNTIME_DATA_CSV_READER_H_
#define RUNTIME_DATA_CSV_READER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace runtime::data {

// One line, or several where a quoted field holds line ends.
struct CsvRecord {
  int64_t line = 0;  // where it begins, from 1
  std::vector<std::string> fields;
};

class CsvReader {
 public:
  // Text and name are borrowed. A byte order mark is skipped.
  CsvReader(std::string_view text, const std::string& name);
  // Reuses the memory of `record`. False at the end; empty lines are skipped. Throws DataError for
  // quotes that do not match.
  bool next(CsvRecord& record);

 private:
  void read_field(std::string& field, std::size_t column);
  void read_quoted(std::string& field, std::size_t column);
  bool at_line_end() const { return at_ == text_.size() || text_[at_] == '\n'; }
  void skip_blanks();

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
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
