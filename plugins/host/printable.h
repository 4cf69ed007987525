// Text that plugins give, made fit for terminals, logs and JSON.
#ifndef PLUGINS_HOST_PRINTABLE_H_
#define PLUGINS_HOST_PRINTABLE_H_

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

namespace plugins::host {

// The text with every control character, every mark that reverses the direction of writing, and
// every byte that is not UTF-8 written as "\x1b". Every text of a plugin goes through here where it
// enters the host, so nothing behind it has to think of terminals. Text that is printable already
// comes back as it is.
std::string printable(std::string_view text);

// The same for a fixed array of the contract. The plugin may have forgotten the terminating NUL;
// what does not fit is cut off.
template <std::size_t N>
void make_printable(char (&text)[N]) {
  const std::string clean = printable(std::string_view(text, strnlen(text, N)));
  const std::size_t length = std::min(clean.size(), N - 1);
  std::memcpy(text, clean.data(), length);
  std::memset(text + length, 0, N - length);
}

}  // namespace plugins::host

#endif  // PLUGINS_HOST_PRINTABLE_H_
