// Reads records block by block, with quoted fields over several lines.
#include "runtime/data/csv_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "runtime/error.h"

namespace runtime::data {
namespace {

constexpr std::size_t kBlock = std::size_t{1} << 18;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

template <class Number>
std::optional<Number> parse_whole(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

CsvReader::CsvReader(Source& source, const std::string& name)
    : source_(source), name_(name), block_(make_bytes(kBlock)) {
  if (rest().starts_with(kByteOrderMark)) at_ += kByteOrderMark.size();
  if (rest().starts_with("\xFF\xFE") || rest().starts_with("\xFE\xFF"))
    throw DataError(name + ": the text is UTF-16; expected UTF-8: save it again as CSV in UTF-8");
}

std::string_view CsvReader::rest() {
  if (at_ == end_) {
    at_ = 0;
    end_ = source_.read(block_.data.get(), block_.size);
  }
  return {reinterpret_cast<const char*>(block_.data.get()) + at_, end_ - at_};
}

bool CsvReader::next(CsvRecord& record) {
  for (;; ++at_, ++line_) {
    skip_blanks();
    if (at_end()) return false;
    if (!at('\n')) break;
  }
  record.line = line_;
  std::size_t count = 0;
  for (bool more = true; more; ++count) {
    if (count == kMaxFields) {
      fail_at_cell(name_, record.line, count,
                   "the line goes on; expected at most " + std::to_string(kMaxFields) + " fields");
    }
    if (count == record.fields.size()) record.fields.emplace_back();
    read_field(record.fields[count], count);
    more = !at_line_end();  // if so, a comma follows
    if (more) ++at_;
  }
  record.fields.resize(count);
  if (!at_end()) ++at_, ++line_;
  return true;
}

void CsvReader::skip_blanks() {
  while (!at_end() && is_blank(rest().front())) ++at_;
}

void CsvReader::append(std::string& field, std::string_view text, std::size_t column) const {
  if (text.size() > kMaxField - field.size()) {
    fail_at_cell(name_, line_, column,
                 "the field has more than " + std::to_string(kMaxField) +
                     " bytes; expected a number or a name; is a quote or a comma missing?");
  }
  field.append(text);
}

void CsvReader::read_field(std::string& field, std::size_t column) {
  field.clear();
  skip_blanks();
  if (at('"')) return read_quoted(field, column);
  while (!at_end()) {
    const std::string_view block = rest();
    const std::size_t end = std::min(block.find_first_of(",\n"), block.size());
    append(field, block.substr(0, end), column);
    at_ += end;
    if (end < block.size()) break;
  }
  while (!field.empty() && is_blank(field.back())) field.pop_back();
}

void CsvReader::read_quoted(std::string& field, std::size_t column) {
  const int64_t line = line_;
  for (++at_;;) {
    if (at_end()) fail_at_cell(name_, line, column, "a quoted field has no closing quote");
    const char c = rest().front();
    ++at_;
    if (c == '"' && !at('"')) break;
    if (c == '"') ++at_;  // a quote inside a quoted field is written twice
    if (c == '\n') ++line_;
    append(field, {&c, 1}, column);
  }
  skip_blanks();
  if (!at_line_end() && !at(',')) {
    fail_at_cell(name_, line_, column,
                 "text behind the closing quote; expected a comma (a quote within quotes is \"\")");
  }
}

void fail_at_cell(const std::string& name, int64_t line, std::size_t column,
                  const std::string& message) {
  throw DataError(name + ": line " + std::to_string(line) + ", column " +
                  std::to_string(column + 1) + ": " + message);
}

std::optional<double> to_number(std::string_view text) { return parse_whole<double>(text); }

std::optional<int64_t> to_integer(std::string_view text) { return parse_whole<int64_t>(text); }

bool keeps_integer(std::string_view text, double value) {
  constexpr double kExact = int64_t{1} << 53;
  if (std::abs(value) < kExact) return true;
  if (text.front() == '+') text.remove_prefix(1);
  if (text.find_first_not_of("0123456789", text.front() == '-' ? 1 : 0) != text.npos) return true;
  std::array<char, std::numeric_limits<float>::max_exponent10 + 3> digits;  // of a float at most
  const auto [end, error] =
      std::to_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::fixed);
  return error == std::errc() && text == std::string_view(digits.data(), end);
}

std::string quoted_for_message(std::string_view text) {
  constexpr std::size_t kMaxShown = 40;
  std::string shown = "\"";
  for (const char c : text.substr(0, kMaxShown)) shown += static_cast<uint8_t>(c) < 32 ? '?' : c;
  return shown + (text.size() > kMaxShown ? "...\"" : "\"");
}

}  // namespace runtime::data
