// Counts columns of UTF-8, shortens text, and breaks it at spaces.
#include "runtime/terminal/text.h"

#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <cstdio>
#include <cwchar>
#include <functional>

#include "runtime/terminal/terminal.h"

namespace runtime::terminal {

namespace {

// The C library knows the widths of characters, but only in a locale of UTF-8.
class Utf8 {
 public:
  Utf8() : locale_(newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)) {
    if (locale_ != nullptr) before_ = uselocale(locale_);
  }
  ~Utf8() {
    if (locale_ == nullptr) return;
    uselocale(before_);
    freelocale(locale_);
  }
  Utf8(const Utf8&) = delete;
  Utf8& operator=(const Utf8&) = delete;

 private:
  locale_t locale_, before_ = nullptr;
};

// Calls `character` with the bytes and the columns of each character, until it returns false.
void for_each_character(std::string_view text,
                        const std::function<bool(std::string_view, size_t)>& character) {
  const Utf8 locale;
  mbstate_t state{};
  while (!text.empty()) {
    wchar_t wide = 0;
    size_t bytes = mbrtowc(&wide, text.data(), text.size(), &state);
    int columns = 1;
    if (bytes > text.size()) {  // not UTF-8
      state = {};
      bytes = 1;
    } else {
      columns = std::max(wcwidth(wide), 0);
    }
    bytes = std::max<size_t>(bytes, 1);
    if (!character(text.substr(0, bytes), static_cast<size_t>(columns))) return;
    text.remove_prefix(bytes);
  }
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c < 0x7F; });
}

// The longest beginning of the text that has at most so many columns.
std::string_view beginning(std::string_view text, size_t columns) {
  size_t bytes = 0, taken = 0;
  for_each_character(text, [&](std::string_view character, size_t wide) {
    if (taken + wide > columns) return false;
    taken += wide;
    bytes += character.size();
    return true;
  });
  return text.substr(0, bytes);
}

// The longest end of the text that has at most so many columns.
std::string_view end(std::string_view text, size_t columns) {
  size_t left = width(text), skipped = 0;
  for_each_character(text, [&](std::string_view character, size_t wide) {
    if (left <= columns) return false;
    left -= wide;
    skipped += character.size();
    return true;
  });
  return text.substr(skipped);
}

// Where a line that is too long is broken: at the last space that fits, but not before a word that
// is too long for the next line, too. npos: nowhere.
size_t break_of(const std::string& line, size_t columns, size_t indent) {
  const size_t first = line.find_first_not_of(' ');
  size_t at = line.rfind(' ', beginning(line, columns + 1).size() - 1);
  if (at == std::string::npos || at <= first) return line.find(' ', first);
  const size_t word = at + 1, end = std::min(line.find(' ', word), line.size());
  if (indent + width(line.substr(word, end - word)) <= columns) return at;
  return line.find(' ', word);
}

std::string folded_line(std::string line, size_t columns, size_t indent) {
  std::string text;
  while (width(line) > columns) {
    const size_t at = break_of(line, columns, indent);
    const size_t rest = line.find_first_not_of(' ', at);
    if (at == std::string::npos || rest == std::string::npos) break;
    text += line.substr(0, line.find_last_not_of(' ', at) + 1) + "\n";
    line = std::string(indent, ' ') + line.substr(rest);
  }
  return text + line;
}

}  // namespace

size_t width(std::string_view text) {
  if (is_ascii(text)) return text.size();
  size_t columns = 0;
  for_each_character(text, [&](std::string_view, size_t wide) {
    columns += wide;
    return true;
  });
  return columns;
}

std::string shortened(std::string_view text, size_t columns, Keep keep) {
  constexpr std::string_view kRest = "..";
  if (width(text) <= columns) return std::string(text);
  if (columns <= kRest.size()) return std::string(kRest.substr(0, columns));
  const size_t room = columns - kRest.size();
  return keep == Keep::kBegin ? std::string(beginning(text, room)).append(kRest)
                              : std::string(kRest).append(end(text, room));
}

std::string padded(const std::string& text, size_t columns, bool right) {
  const std::string spaces(columns - std::min(width(text), columns), ' ');
  return right ? spaces + text : text + spaces;
}

std::string folded(std::string_view text, int columns, size_t indent) {
  std::string result;
  while (!text.empty()) {
    const size_t end_of_line = std::min(text.find('\n'), text.size());
    const std::string line(text.substr(0, end_of_line));
    const bool whole = columns <= 0 || line.starts_with("next: runtime ");
    result += whole ? line : folded_line(line, static_cast<size_t>(columns), indent);
    if (end_of_line < text.size()) result += '\n';
    text.remove_prefix(std::min(end_of_line + 1, text.size()));
  }
  return result;
}

void print_folded(std::string_view text, size_t indent) {
  std::fputs(folded(text, columns(STDOUT_FILENO), indent).c_str(), stdout);
}

}  // namespace runtime::terminal
