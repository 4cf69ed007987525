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

size_t SourceFile::code_lines() const {
  static const std::regex comment(R"(^\s*(//.*|/\*.*|\*.*)?$)");
  return static_cast<size_t>(std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
    return !std::regex_match(line, comment);
  }));
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
