// Checks that the anonymous namespaces of a target define each name once, so that its sources can
// be compiled together (RUNTIME_UNITY): there they share one anonymous namespace.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tests/house/source_files.h"

namespace house {
namespace {

namespace fs = std::filesystem;

// Folders whose sources are compiled one by one; see their CMakeLists.txt.
const std::set<std::string> kSeparate = {"plugins/examples", "tools/peers"};
// Files that are: the same kernels for several sets of instructions.
constexpr char kOneByOne[] = "/kernels_";

// Returns what a line at the margin defines: the names of a type, of an alias or of constants, or a
// function's name with the types of its parameters as far as the line has them.
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
    static const std::regex parameter(R"([ &*]\w+(?: = [^,]*)?(?=,|$))");
    const std::string head = match[1];
    names.push_back(std::regex_replace(head.substr(0, head.find(") {")), parameter, ""));
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

// The clashes between sources that are compiled together.
std::vector<std::string> clashes(const std::vector<SourceFile>& sources) {
  std::map<std::string, Place> first;  // by name
  std::vector<std::string> list;
  for (const SourceFile& file : sources) {
    for (const auto& [name, line] : hidden_names(file)) {
      const Place here{file.path, line};
      const auto [at, is_new] = first.emplace(name, here);
      if (!is_new && clash(at->second, here))
        list.push_back(name + " is defined in the anonymous namespaces of " + at->second.file +
                       " and " + here.file);
    }
  }
  return list;
}

using Targets = std::map<std::string, std::vector<SourceFile>>;  // the sources, by name

// The targets of libraries and programs: each room is taken for one.
Targets by_room(const std::vector<SourceFile>& files) {
  Targets rooms;
  for (const SourceFile& file : files) {
    if (file.path.ends_with(".cpp") && !kSeparate.contains(file.room()) &&
        file.path.find(kOneByOne) == std::string::npos)
      rooms[file.room()].push_back(file);
  }
  return rooms;
}

// The sources that a CMakeLists.txt in `folder` gives each runtime_add_test, as paths; a name that
// CMake computes is not found in `files`.
void add_tests(const fs::path& folder, const std::string& cmake,
               const std::map<std::string, SourceFile>& files, Targets& targets) {
  static const std::regex test(R"(runtime_add_test\(([^\s()]+)([^()]*)\))");
  const std::string root = "${CMAKE_SOURCE_DIR}/";
  for (std::sregex_iterator i(cmake.begin(), cmake.end(), test), end; i != end; ++i) {
    std::istringstream words((*i)[2]);
    for (std::string word; words >> word;) {
      const bool from_root = word.starts_with(root);
      const fs::path path = from_root ? fs::path(word.substr(root.size())) : folder / word;
      const auto file = files.find(path.lexically_normal().string());
      if (file != files.end()) targets[(*i)[1]].push_back(file->second);
    }
  }
}

Targets test_targets() {
  std::map<std::string, SourceFile> files;  // by path
  for (const SourceFile& file : source_files("tests")) files.emplace(file.path, file);
  Targets targets;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(SOURCE_FOLDER) / "tests")) {
    if (entry.path().filename() != "CMakeLists.txt") continue;
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    add_tests(fs::relative(entry.path().parent_path(), SOURCE_FOLDER), text.str(), files, targets);
  }
  return targets;
}

void expect_no_clashes(const Targets& targets) {
  for (const auto& [target, sources] : targets) {
    for (const std::string& clash : clashes(sources))
      ADD_FAILURE() << target << ": " << clash << "; rename one, or let both use one definition";
  }
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

TEST(HiddenNames, OfFunctionsClashWhateverTheirParametersAreCalled) {
  EXPECT_FALSE(clashes({file_of("x/y/a.cpp", {"int f(const std::string& a, int b = 1) {"}),
                        file_of("x/y/b.cpp", {"int f(const std::string& c, int d) {"})})
                   .empty());
}

TEST(HiddenNames, OfOtherNamespacesAndParametersDoNotClash) {
  EXPECT_TRUE(
      clashes({file_of("x/y/a.cpp", {"int f(int a) {"}), file_of("x/y/b.cpp", {"int f(char a) {"})})
          .empty());
  SourceFile other = file_of("x/y/b.cpp", {"struct Row {"});
  other.lines[0] = "namespace a::c {";
  EXPECT_TRUE(clashes({file_of("x/y/a.cpp", {"struct Row {"}), other}).empty());
}

TEST(HiddenNames, AreLookedForInTheSourcesOfEachTarget) {
  std::map<std::string, SourceFile> files;
  std::vector<SourceFile> list;
  for (const char* path : {"tests/x/a.cpp", "tests/x/b.cpp", "tests/y/c.cpp", "tests/z.h"}) {
    list.push_back(file_of(path, {}));
    files.emplace(path, list.back());
  }
  EXPECT_EQ(by_room(list).at("tests/x").size(), 2u);
  EXPECT_EQ(by_room(list).count("tests/z.h"), 0u);
  Targets targets;
  add_tests("tests/x",
            "runtime_add_test(one LABEL unit SOURCES a.cpp\n  ../y/c.cpp LIBRARIES b.cpp.so)\n"
            "runtime_add_test(two SOURCES a.cpp ${CMAKE_SOURCE_DIR}/tests/x/b.cpp ${part}.cpp)",
            files, targets);
  ASSERT_EQ(targets.size(), 2u);
  EXPECT_EQ(targets["one"].at(1).path, "tests/y/c.cpp");
  EXPECT_EQ(targets["two"].at(1).path, "tests/x/b.cpp");
}

TEST(HiddenNames, AreDefinedOnceInATarget) {
  for (const char* folder : {"runtime", "plugins", "backends", "collectives", "tools"}) {
    const std::vector<SourceFile> files = source_files(folder);
    ASSERT_GT(files.size(), 5u) << folder;
    expect_no_clashes(by_room(files));
  }
}

TEST(HiddenNames, AreDefinedOnceInATargetOfTests) {
  const Targets targets = test_targets();
  EXPECT_GT(targets.size(), 100u);
  expect_no_clashes(targets);
}

}  // namespace
}  // namespace house
