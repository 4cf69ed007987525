// The source files of the tree, as text.
#ifndef TESTS_HOUSE_SOURCE_FILES_H_
#define TESTS_HOUSE_SOURCE_FILES_H_

#include <string>
#include <vector>

namespace house {

struct SourceFile {
  std::string path;  // relative to the root of the tree, for example "runtime/graph/graph.h"
  std::vector<std::string> lines;

  bool is_header() const { return path.ends_with(".h"); }
  // The first two folders of the path, for example "runtime/graph".
  std::string room() const;
  // The names that the file includes, without quotes or brackets.
  std::vector<std::string> includes() const;
  // The number of lines that are neither blank nor only a comment.
  size_t code_lines() const;
};

// Every .h, .c, .cpp and .inc below `folder` (for example "runtime"); none if there is no such
// folder.
std::vector<SourceFile> source_files(const std::string& folder);

}  // namespace house

#endif  // TESTS_HOUSE_SOURCE_FILES_H_
