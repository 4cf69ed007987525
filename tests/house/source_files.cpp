// Reads the source files of a folder, and finds their code lines and functions.
#include "tests/house/source_files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>

namespace house {

namespace fs = std::filesystem;

std::string SourceFile::room() const {
  const size_t first = path.find('/');
  return path.substr(0, path.find('/', first + 1));
}

std::vector<std::string> SourceFile::includes() const {
  static const std::regex pattern(R"(^\s*#\s*include\s*[<"]([^>"]+)[>"].*)");
  std::vector<std::string> list;
  for (const std::string& line : lines) {
    std::smatch match;
    if (std::regex_match(line, match, pattern)) list.push_back(match[1]);
  }
  return list;
}

namespace {

bool is_code(const std::string& line) {
  static const std::regex comment(R"(^\s*(//.*|/\*.*|\*.*)?$)");
  return !std::regex_match(line, comment);
}

// Which lines are code outside of tables. A table ends with the line that closes its braces and
// ends its statement.
std::vector<bool> counted_lines(const std::vector<std::string>& lines) {
  static const std::regex table(R"(\s*(static const std::(vector|map|set)<.*>& \w+ =|)"
                                R"((static |inline )*const(expr)? .*\bk[A-Z]\w*(\[\])? = \{).*)");
  std::vector<bool> counted;
  bool inside = false;
  std::ptrdiff_t open = 0;
  for (const std::string& line : lines) {
    inside = inside || std::regex_match(line, table);
    counted.push_back(!inside && is_code(line));
    if (!inside) continue;
    open += std::count(line.begin(), line.end(), '{') - std::count(line.begin(), line.end(), '}');
    inside = open != 0 || !line.ends_with(';');
  }
  return counted;
}

}  // namespace

size_t SourceFile::code_lines() const {
  return static_cast<size_t>(std::count_if(lines.begin(), lines.end(), is_code));
}

size_t SourceFile::code_lines_outside_of_tables() const {
  const std::vector<bool> counted = counted_lines(lines);
  return static_cast<size_t>(std::count(counted.begin(), counted.end(), true));
}

// The head of a function ends with ") {", perhaps with qualifiers or a result type between.
// Anything else that opens a brace (a class, a namespace, a table) is entered line by line, so that
// the functions in it are found. The body is indented by two more than the line that ends it.
std::vector<Function> SourceFile::functions() const {
  static const std::regex head(R"(.*[)}]( const| noexcept| override| ->.*)* \{$)");
  const std::vector<bool> counted = counted_lines(lines);
  std::vector<Function> found;
  for (size_t i = 0; i + 1 < lines.size(); ++i) {
    if (!std::regex_match(lines[i], head)) continue;
    const size_t indent = std::max<size_t>(lines[i + 1].find_first_not_of(' '), 2) - 2;
    const std::string last = std::string(indent, ' ') + "}";
    const auto begin = lines.begin() + static_cast<std::ptrdiff_t>(i) + 1;
    const auto end = std::find_if(begin, lines.end(),
                                  [&](const std::string& line) { return line.starts_with(last); });
    const auto first = counted.begin() + (begin - lines.begin());
    const auto code = std::count(first, first + (end - begin), true);
    found.push_back({i + 2, static_cast<size_t>(code)});
    i = static_cast<size_t>(end - lines.begin());
  }
  return found;
}

std::vector<SourceFile> source_files(const std::string& folder) {
  std::vector<SourceFile> files;
  const fs::path root = SOURCE_FOLDER;
  if (!fs::exists(root / folder)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".h" && extension != ".c" && extension != ".cpp" && extension != ".inc")
      continue;
    SourceFile file{fs::relative(entry.path(), root).string(), {}};
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);) file.lines.push_back(line);
    files.push_back(std::move(file));
  }
  std::sort(files.begin(), files.end(),
            [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
  return files;
}

}  // namespace house
