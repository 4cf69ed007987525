// Reads the source files of a folder, and finds their code lines and functions.
#include "tests/house/source_files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

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

namespace {

// It reads the body of a class statement by statement, and counts what stands at its own level.
class ClassReader {
 public:
  explicit ClassReader(Class& found) : found_(found) {}

  // `line` belongs to the body and is code without strings' braces.
  void read(const std::string& line) {
    for (const char c : line) {
      if (c == '{' || c == '(') {
        if (depth_++ == 0 && c == '{') block_ = statement_;
      } else if (c == '}' || c == ')') {
        if (--depth_ == 0 && c == '}' && is_function(block_)) {
          end();
          continue;
        }
      } else if (depth_ == 0 && c == ';') {
        end();
        continue;
      } else if (depth_ == 0 && c == ':' && is_access()) {
        continue;
      }
      if (depth_ == 0 || (depth_ == 1 && c == '(')) statement_ += c;
    }
    statement_ += ' ';
  }

 private:
  bool is_access() {
    static const std::regex access(R"(\s*(public|protected|private))");
    std::smatch match;
    if (!std::regex_match(statement_, match, access)) return false;
    public_ = match[1] == "public";
    statement_.clear();
    return true;
  }
  static bool is_function(const std::string& text) {
    return text.find('(') != std::string::npos && text.find('=') == std::string::npos;
  }
  void end() {
    static const std::regex function(R"((\w+)\()"), none(R"(\s*(using|friend|static_assert).*)"),
        member(R"(\b\w+_(?=\s*(\[|=|,|$)))"), ends_as_member(R"(.*\w_\s*(\[.*\]\s*)?(=.*)?)");
    std::smatch match;
    if (std::regex_match(statement_, none)) {
    } else if (std::regex_match(statement_, ends_as_member)) {
      found_.members += static_cast<size_t>(
          std::distance(std::sregex_iterator(statement_.begin(), statement_.end(), member), {}));
    } else if (std::regex_search(statement_, match, function)) {
      const std::string name = match[1];
      const bool special = name == found_.name || statement_.find("operator") != std::string::npos;
      if (public_ && !special && names_.insert(name).second) ++found_.public_functions;
    }
    statement_.clear();
    block_.clear();
  }

  Class& found_;
  std::set<std::string> names_;
  std::string statement_, block_;
  int depth_ = 0;
  bool public_ = false;
};

}  // namespace

// A class ends at the line "};" with the indentation of its first line.
std::vector<Class> SourceFile::classes() const {
  static const std::regex head(R"(^( *)class (\w+)( final)?( :.*)? \{$)"),
      text(R"("([^"\\]|\\.)*"|'([^'\\]|\\.)'|//.*)");
  const std::vector<bool> counted = counted_lines(lines);
  std::vector<Class> found;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::smatch match;
    if (!std::regex_match(lines[i], match, head)) continue;
    Class c{match[2], i + 1};
    const std::string last = match[1].str() + "};";
    ClassReader reader(c);
    for (size_t k = i + 1; k < lines.size() && !lines[k].starts_with(last); ++k) {
      c.code_lines += counted[k];
      if (is_code(lines[k])) reader.read(std::regex_replace(lines[k], text, "0"));
    }
    found.push_back(c);
  }
  return found;
}

namespace {

std::vector<SourceFile> files_below(const std::string& folder,
                                    const std::set<std::string>& extensions) {
  std::vector<SourceFile> files;
  const fs::path root = SOURCE_FOLDER;
  if (!fs::exists(root / folder)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
    if (!extensions.contains(entry.path().extension().string())) continue;
    SourceFile file{fs::relative(entry.path(), root).string(), {}};
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);) file.lines.push_back(line);
    files.push_back(std::move(file));
  }
  std::sort(files.begin(), files.end(),
            [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
  return files;
}

}  // namespace

std::vector<SourceFile> source_files(const std::string& folder) {
  return files_below(folder, {".h", ".c", ".cpp", ".cu", ".inc"});
}

std::vector<SourceFile> script_files(const std::string& folder) {
  return files_below(folder, {".py", ".js", ".sh"});
}

}  // namespace house
