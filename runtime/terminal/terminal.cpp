// Asks the environment and the terminal for its columns, and whether a line can be drawn again.
#include "runtime/terminal/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>

namespace runtime::terminal {

namespace {

constexpr int kUsualColumns = 80, kMostColumns = 10000;

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

bool can_redraw(int file) {
  const std::string_view terminal = variable("TERM");
  return isatty(file) != 0 && !terminal.empty() && terminal != "dumb";
}

int columns(int file) {
  if (isatty(file) == 0) return 0;
  const int wanted = std::atoi(std::string(variable("COLUMNS")).c_str());
  if (wanted > 0 && wanted <= kMostColumns) return wanted;
  winsize size{};
  return ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsualColumns;
}

}  // namespace runtime::terminal
