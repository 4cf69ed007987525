// The source files of the tree, as text.
#ifndef TESTS_HOUSE_SOURCE_FILES_H_
#define TESTS_HOUSE_SOURCE_FILES_H_

#include <string>
#include <vector>

namespace house {

// A function body, found by the indentation that clang-format gives it.
struct Function {
  size_t first_line = 0;  // of the body, counted from 1
  size_t code_lines = 0;  // of the body, without blank lines, comments and tables
};

// A class (not a struct, whose members are data) with a body.
struct Class {
  std::string name;
  size_t first_line = 0;        // of the class, counted from 1
  size_t code_lines = 0;        // of the body, without blank lines, comments and tables
  size_t public_functions = 0;  // beside constructors, destructor and operators; a name counts once
  size_t members = 0;           // variables whose names end in _
};

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
  // The same without the lines of tables (`static const std::vector<Row>& all = *new ...`,
  // `constexpr Row kRows[] = {`): a row more is what a table is for.
  size_t code_lines_outside_of_tables() const;
  // The functions with a body of at least one line of its own. A lambda belongs to the function
  // around it.
  std::vector<Function> functions() const;
  std::vector<Class> classes() const;
};

// Every .h, .c, .cpp, .cu and .inc below `folder` (for example "runtime"); none if there is no such
// folder.
std::vector<SourceFile> source_files(const std::string& folder);
// Every .py, .js and .sh below it.
std::vector<SourceFile> script_files(const std::string& folder);

}  // namespace house

#endif  // TESTS_HOUSE_SOURCE_FILES_H_
