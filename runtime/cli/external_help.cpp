// Parses the help of a program into commands and options.
#include "runtime/cli/external_help.h"

#include <algorithm>
#include <sstream>

namespace runtime::cli {

namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) parts.push_back(part);
  return parts;
}

// The text behind the first gap of two spaces, which separates names from their description.
std::string description_in(const std::string& line) {
  const size_t gap = line.find("  ");
  const size_t text = gap == std::string::npos ? gap : line.find_first_not_of(' ', gap);
  return text == std::string::npos ? "" : line.substr(text);
}

// Reads "-h,--help   Print this" or "--steps INT:POSITIVE Needs: --data   The steps": behind the
// names is a type, if the option takes a value, and what CLI11 says of other options.
CompletedOption option_in(const std::string& line) {
  const size_t end = std::min(line.find(' '), line.size());
  CompletedOption option;
  option.names = split(line.substr(0, end), ',');
  option.help = description_in(line);
  std::string type = line.substr(end, line.find("  ", end) - end);
  for (const char* other : {" Needs: ", " Excludes: "})
    type.resize(std::min(type.find(other), type.size()));
  option.takes_value = !type.empty();
  const size_t begin = line.find('{', end), close = line.find('}', end);
  if (option.takes_value && begin < close && close != std::string::npos)
    option.choices = split(line.substr(begin + 1, close - begin - 1), ',');
  return option;
}

// The lines of a section of a help: those that are indented by two spaces, without these. Where the
// names are long, the description is the next line.
std::vector<std::string> lines_of(const std::string& help, const std::string& section) {
  std::vector<std::string> lines;
  bool inside = false;
  for (const std::string& line : split(help, '\n')) {
    if (!line.starts_with("  ")) inside = line == section;
    const size_t begin = line.find_first_not_of(' ');
    if (!inside || begin == std::string::npos) continue;
    if (begin == 2) lines.push_back(line.substr(2));
    if (begin > 2 && !lines.empty() && lines.back().find("  ") == std::string::npos)
      lines.back() += "  " + line.substr(begin);
  }
  return lines;
}

}  // namespace

std::vector<CompletedCommand> commands_in(const std::string& help, const std::string& path) {
  std::vector<CompletedCommand> list = {{path, help.substr(0, help.find('\n')), {}, {}}};
  for (const std::string& line : lines_of(help, "Options:"))
    list[0].options.push_back(option_in(line));
  for (const std::string& line : lines_of(help, "Subcommands:"))
    list.push_back({path + " " + line.substr(0, line.find(' ')), description_in(line), {}, {}});
  return list;
}

std::vector<CompletedCommand> commands_of(const ExternalCommand& command, const std::string& path) {
  std::vector<CompletedCommand> list = commands_in(help_of(command), path);
  for (size_t i = 1; i < list.size(); ++i) {
    const std::string name = list[i].path.substr(path.size() + 1);
    list[i].options = commands_in(help_of(command, name), list[i].path)[0].options;
  }
  return list;
}

}  // namespace runtime::cli
