// Makes texts of plugins safe for terminals, logs and JSON.
#ifndef PLUGINS_HOST_PRINTABLE_H_
#define PLUGINS_HOST_PRINTABLE_H_

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

namespace plugins::host {

// Returns the text with every control character, every mark that changes the direction of writing,
// and every byte that is not UTF-8 in the form "\x1b". Text without these is returned unchanged.
// Every text of a plugin passes through this function where it enters the host, so that no other
// code has to protect terminals.
std::string printable(std::string_view text);

// The same for a fixed array of the contract. The plugin may have forgotten the terminating NUL.
template <std::size_t N>
std::string printable_array(const char (&text)[N]) {
  return printable(std::string_view(text, strnlen(text, N)));
}

// The same in place. Text that does not fit any more is cut off.
template <std::size_t N>
void make_printable(char (&text)[N]) {
  const std::string clean = printable_array(text);
  const std::size_t length = std::min(clean.size(), N - 1);
  std::memcpy(text, clean.data(), length);
  std::memset(text + length, 0, N - length);
}

}  // namespace plugins::host

#endif  // PLUGINS_HOST_PRINTABLE_H_
