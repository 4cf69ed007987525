// Wraps the parser's help at the width of the terminal.
#include "runtime/cli/help_format.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>

#include "runtime/terminal/terminal.h"

namespace runtime::cli {

namespace {

constexpr size_t kLeastColumns = 40;

// The column at which the rest of a line goes on.
size_t hanging(const std::string& line, size_t indent) {
  const size_t begin = std::min(line.find_first_not_of(' '), line.size());
  if (begin >= indent) return begin;  // a description whose name has a line of its own
  const bool described = begin > 0 && line.size() > indent && line[indent] != ' ' &&
                         line[indent - 1] == ' ' && line[indent - 2] == ' ';
  return described ? indent : begin + 4;
}

bool is_command(const std::string& line) {
  return line.starts_with("  runtime ") || line.starts_with("  mpirun ");
}

std::string wrapped_line(std::string line, size_t columns, size_t indent) {
  const bool command = is_command(line);
  const std::string end = command ? " \\" : "", margin(hanging(line, indent), ' ');
  std::string text;
  while (line.size() > columns) {
    // A word that is longer than the line stays whole.
    const size_t first = line.find(' ', std::max(line.find_first_not_of(' '), margin.size()));
    size_t at = line.rfind(' ', columns - end.size());
    if (at == std::string::npos || at <= line.find_first_not_of(' ')) at = first;
    if (at == std::string::npos) break;
    text += line.substr(0, line.find_last_not_of(' ', at) + 1) + end + "\n";
    line = margin + line.substr(std::min(line.find_first_not_of(' ', at), line.size()));
  }
  return text + line;
}

class HelpFormat : public CLI::Formatter {
 public:
  explicit HelpFormat(size_t columns) : columns_(columns) { column_width(columns < 80 ? 20 : 30); }
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    return wrapped(CLI::Formatter::make_help(app, std::move(name), mode), columns_,
                   get_column_width());
  }

 private:
  size_t columns_;
};

}  // namespace

std::string wrapped(const std::string& text, size_t columns, size_t indent) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line);)
    result += wrapped_line(line, std::max(columns, kLeastColumns), indent) + "\n";
  return result;
}

std::shared_ptr<CLI::FormatterBase> help_format() {
  const int columns = terminal::columns(STDOUT_FILENO);
  if (columns == 0) return nullptr;
  return std::make_shared<HelpFormat>(static_cast<size_t>(columns));
}

}  // namespace runtime::cli
