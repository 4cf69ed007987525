// Checks that the anonymous namespaces of a target define each name once, so that its sources can
// be compiled together (RUNTIME_UNITY): there they share one anonymous namespace.
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>

#include "tests/house/source_files.h"

namespace house {
namespace {

// Folders whose sources are compiled one by one; see their CMakeLists.txt.
const std::set<std::string> kSeparate = {"plugins/examples", "tools/bench"};
// Files that are: the same kernels for several sets of instructions.
constexpr char kOneByOne[] = "/kernels_";

// Returns what a line at the margin defines: the names of a type, of an alias or of constants, or a
// function's name with its parameters as far as the line has them.
std::vector<std::string> defined_by(const std::string& line) {
  static const std::regex type(
      R"(^(?:struct|class|union|enum|enum class) (\w+)(?: final)?(?: :.*)? \{.*)");
  static const std::regex alias(R"(^using (\w+) = .*)");
  static const std::regex constants(R"(^(?:static|const|constexpr|inline|thread_local|std::)\b.*)");
  static const std::regex constant(R"(\b(k[A-Z]\w*)(?:\[\w*\])*(?: = |\{))");
  static const std::regex function(R"(^[\w:<>,*& \[\]]+ [*&]*(\w+\(.*)$)");
  std::smatch match;
  if (std::regex_match(line, match, type) || std::regex_match(line, match, alias))
    return {match[1]};
  std::vector<std::string> names;
  if (std::regex_match(line, constants)) {
    for (std::sregex_iterator i(line.begin(), line.end(), constant), end; i != end; ++i)
      names.push_back((*i)[1]);
  }
  if (names.empty() && std::regex_match(line, match, function)) {
    const std::string head = match[1];
    names.push_back(head.substr(0, head.find(") {")));
  }
  return names;
}

// The names that the anonymous namespaces of a file define, each with the namespace around it, and
// the lines that define them.
std::map<std::string, std::string> hidden_names(const SourceFile& file) {
  std::map<std::string, std::string> names;
  std::string around;
  bool hidden = false;
  for (const std::string& line : file.lines) {
    if (line == "namespace {") {
      hidden = true;
    } else if (line.starts_with("namespace ") && line.ends_with(" {")) {
      around = line.substr(10, line.size() - 12);
    } else if (line == "}  // namespace") {
      hidden = false;
    } else if (hidden && !line.empty() && line[0] != ' ') {
      for (const std::string& name : defined_by(line)) names.emplace(around + "::" + name, line);
    }
  }
  return names;
}

struct Place {
  std::string file, line;
};

// Two aliases of one type do not clash: it is allowed to say the same twice.
bool clash(const Place& a, const Place& b) {
  return a.line != b.line || !a.line.starts_with("using ");
}

std::vector<std::string> clashes(const std::vector<SourceFile>& files) {
  std::map<std::string, Place> first;  // by room and name
  std::vector<std::string> list;
  for (const SourceFile& file : files) {
    if (!file.path.ends_with(".cpp") || kSeparate.contains(file.room()) ||
        file.path.find(kOneByOne) != std::string::npos)
      continue;
    for (const auto& [name, line] : hidden_names(file)) {
      const Place here{file.path, line};
      const auto [at, is_new] = first.emplace(file.room() + " " + name, here);
      if (!is_new && clash(at->second, here))
        list.push_back(name + " is defined in the anonymous namespaces of " + at->second.file +
                       " and " + here.file);
    }
  }
  return list;
}

SourceFile file_of(const std::string& path, const std::vector<std::string>& hidden) {
  SourceFile file{path, {"namespace a::b {", "namespace {"}};
  file.lines.insert(file.lines.end(), hidden.begin(), hidden.end());
  file.lines.insert(file.lines.end(), {"}  // namespace", "}  // namespace a::b"});
  return file;
}

TEST(HiddenNames, ThatClashAreFound) {
  for (const char* line :
       {"struct Row {", "class Case final : public Base {",
        "constexpr int kLeast = 1, kMost[] = {3};", "constexpr Row kRows[] = {{1}};",
        "const std::string kName{\"a\"};", "std::string text(int a, double b) {",
        "constexpr std::chrono::seconds kPatience{5};",
        "int64_t up(int64_t a, int64_t b) { return a / b; }"})
    EXPECT_FALSE(clashes({file_of("x/y/a.cpp", {line}), file_of("x/y/b.cpp", {line})}).empty())
        << line;
}

TEST(HiddenNames, OfOneTypeMayBeGivenTwice) {
  const SourceFile here = file_of("x/y/a.cpp", {"using Row = std::vector<int>;"});
  const SourceFile same = file_of("x/y/b.cpp", {"using Row = std::vector<int>;"});
  const SourceFile other = file_of("x/y/b.cpp", {"using Row = std::vector<char>;"});
  EXPECT_TRUE(clashes({here, same}).empty());
  EXPECT_EQ(clashes({here, other}).size(), 1u);
}

TEST(HiddenNames, OfOtherRoomsNamespacesAndParametersDoNotClash) {
  EXPECT_TRUE(
      clashes({file_of("x/y/a.cpp", {"struct Row {"}), file_of("x/z/b.cpp", {"struct Row {"})})
          .empty());
  EXPECT_TRUE(
      clashes({file_of("x/y/a.cpp", {"int f(int a) {"}), file_of("x/y/b.cpp", {"int f(char a) {"})})
          .empty());
  SourceFile other = file_of("x/y/b.cpp", {"struct Row {"});
  other.lines[0] = "namespace a::c {";
  EXPECT_TRUE(clashes({file_of("x/y/a.cpp", {"struct Row {"}), other}).empty());
}

TEST(HiddenNames, AreDefinedOnceInATarget) {
  for (const char* folder : {"runtime", "plugins", "backends", "collectives", "tools"}) {
    const std::vector<SourceFile> files = source_files(folder);
    ASSERT_GT(files.size(), 5u) << folder;
    for (const std::string& clash : clashes(files))
      ADD_FAILURE() << clash << "; rename one, or let both use one definition";
  }
}

}  // namespace
}  // namespace house
