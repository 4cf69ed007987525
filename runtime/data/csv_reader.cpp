#include "runtime/data/csv_reader.h"

#include <algorithm>
#include <charconv>

#include "runtime/error.h"

namespace runtime::data {
namespace {

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

CsvReader::CsvReader(std::string_view text, const std::string& name) : text_(text), name_(name) {
  if (text_.starts_with("\xEF\xBB\xBF")) text_.remove_prefix(3);
}

bool CsvReader::next(CsvRecord& record) {
  for (;; ++at_, ++line_) {
    skip_blanks();
    if (at_ == text_.size()) return false;
    if (text_[at_] != '\n') break;
  }
  record.line = line_;
  std::size_t count = 0;
  for (bool more = true; more; ++count) {
    if (count == record.fields.size()) record.fields.emplace_back();
    read_field(record.fields[count], count);
    more = !at_line_end();  // then this is a comma
    if (more) ++at_;
  }
  record.fields.resize(count);
  if (at_ < text_.size()) ++at_, ++line_;
  return true;
}

void CsvReader::skip_blanks() {
  while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
}

void CsvReader::read_field(std::string& field, std::size_t column) {
  field.clear();
  skip_blanks();
  if (at_ < text_.size() && text_[at_] == '"') return read_quoted(field, column);
  std::size_t end = std::min(text_.find_first_of(",\n", at_), text_.size());
  const std::size_t stop = end;
  while (end > at_ && is_blank(text_[end - 1])) --end;
  field.assign(text_.substr(at_, end - at_));
  at_ = stop;
}

void CsvReader::read_quoted(std::string& field, std::size_t column) {
  const int64_t line = line_;
  for (++at_; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    const bool doubled = c == '"' && at_ + 1 < text_.size() && text_[at_ + 1] == '"';
    if (c == '"' && !doubled) break;
    if (doubled) ++at_;
    if (c == '\n') ++line_;
    field.push_back(c);
  }
  if (at_ == text_.size()) fail_at_cell(name_, line, column, "a quoted field has no closing quote");
  ++at_;
  skip_blanks();
  if (!at_line_end() && text_[at_] != ',') {
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

std::string quoted_for_message(std::string_view text) {
  constexpr std::size_t kMaxShown = 40;
  std::string shown = "\"";
  for (const char c : text.substr(0, kMaxShown)) shown += static_cast<uint8_t>(c) < 32 ? '?' : c;
  return shown + (text.size() > kMaxShown ? "...\"" : "\"");
}

}  // namespace runtime::data
