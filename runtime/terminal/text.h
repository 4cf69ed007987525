// Text of which a terminal has only so many columns for a line. All functions take UTF-8; a byte
// that is none counts as one column. Any thread.
#ifndef RUNTIME_TERMINAL_TEXT_H_
#define RUNTIME_TERMINAL_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace runtime::terminal {

// Returns how many columns a terminal takes for a text on one line: two for a wide character of
// East Asia, none for a combining one.
size_t width(std::string_view text);

// Which part of a text stays where it is too long.
enum class Keep { kBegin, kEnd };

// Returns the text if it has at most so many columns. Otherwise returns as much of it as fits
// beside "..", which stands for the rest.
std::string shortened(std::string_view text, size_t columns, Keep keep = Keep::kBegin);

// Returns the text with spaces behind it (`right`: before it), so that it has so many columns.
std::string padded(const std::string& text, size_t columns, bool right = false);

// Breaks lines of more than `columns` columns at spaces; what follows is indented by `indent`. A
// word that is too long for a line stays whole, and so does a line that begins with
// "next: runtime ", so that whoever copies the command from the terminal gets one line. `columns`
// 0: no limit.
std::string folded(std::string_view text, int columns, size_t indent = 2);

// Prints a text on the standard output, folded where that is a terminal.
void print_folded(std::string_view text, size_t indent = 2);

}  // namespace runtime::terminal

#endif  // RUNTIME_TERMINAL_TEXT_H_
