// The source files of the tree as text.
#ifndef TESTS_HOUSE_SOURCE_FILES_H_
#define TESTS_HOUSE_SOURCE_FILES_H_

#include <string>
#include <vector>

namespace house {

struct SourceFile {
  std::string path;  // from the root of the tree: "runtime/graph/graph.h"
  std::vector<std::string> lines;

  bool is_header() const { return path.ends_with(".h"); }
  // "runtime/graph": the first two folders
  std::string room() const;
  // What it includes, without quotes or brackets.
  std::vector<std::string> includes() const;
  // Lines that are neither blank nor only a comment.
  size_t code_lines() const;
};

// Every .h, .c, .cpp and .inc below `folder` ("runtime"); none if there is no such folder.
std::vector<SourceFile> source_files(const std::string& folder);

}  // namespace house

#endif  // TESTS_HOUSE_SOURCE_FILES_H_
