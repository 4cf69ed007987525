// Checks that each source file of the core has a test: one of its name anywhere in tests/, or one
// that the README of its room names in the table "source | covered by".
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/house/source_files.h"

namespace house {
namespace {

namespace fs = std::filesystem;

// The rooms of the core, for example "runtime/graph", and of the programs that have left it.
std::set<std::string> rooms() {
  std::set<std::string> found;
  for (const char* folder :
       {"runtime", "plugins/host", "plugins/validate", "tools/verify", "tools/bench"}) {
    for (const SourceFile& file : source_files(folder)) {
      if (file.path.ends_with(".cpp")) found.insert(fs::path(file.path).parent_path().string());
    }
  }
  return found;
}

// The rows of the table "source | covered by" in the README of a room. Paths of tests begin below
// tests/; a source without logic has "none: <reason>" instead, which is an empty path here.
std::multimap<std::string, std::string> table_of(const std::string& room) {
  static const std::regex row(R"(^\| `([^`]+\.cpp)` \| (?:`([^`]+)`|none: .+) \|$)");
  std::multimap<std::string, std::string> rows;
  std::ifstream in(fs::path(SOURCE_FOLDER) / room / "README.md");
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("| source | covered by |")) inside = true;
    if (!line.starts_with("|")) inside = false;
    std::smatch match;
    if (inside && std::regex_match(line, match, row)) rows.emplace(match[1], match[2]);
  }
  return rows;
}

// The sources of a room whose name has no test, as names of files.
std::set<std::string> sources_without_test_of_their_name(const std::string& room) {
  static const std::set<std::string> tests = [] {
    std::set<std::string> names;
    for (const SourceFile& file : source_files("tests"))
      names.insert(fs::path(file.path).filename().string());
    return names;
  }();
  std::set<std::string> without;
  for (const auto& entry : fs::directory_iterator(fs::path(SOURCE_FOLDER) / room)) {
    const fs::path& path = entry.path();
    if (path.extension() == ".cpp" && !tests.contains(path.stem().string() + "_test.cpp"))
      without.insert(path.filename().string());
  }
  return without;
}

TEST(Coverage, EverySourceHasATestOfItsNameOrARow) {
  EXPECT_GT(rooms().size(), 10u) << "the rooms were not found";
  for (const std::string& room : rooms()) {
    const auto table = table_of(room);
    for (const std::string& source : sources_without_test_of_their_name(room)) {
      EXPECT_TRUE(table.contains(source))
          << room << "/" << source << " has no test: expected a file "
          << fs::path(source).stem().string()
          << "_test.cpp in tests/, or a row in the table \"source | covered by\" of " << room
          << "/README.md";
    }
  }
}

TEST(Coverage, EveryRowNamesASourceAndATestThatExist) {
  for (const std::string& room : rooms()) {
    const auto without = sources_without_test_of_their_name(room);
    for (const auto& [source, test] : table_of(room)) {
      EXPECT_TRUE(without.contains(source)) << room << "/README.md has a row for " << source
                                            << ", which is not there or has a test of its name";
      if (test.empty()) continue;
      EXPECT_TRUE(fs::is_regular_file(fs::path(SOURCE_FOLDER) / "tests" / test))
          << room << "/README.md names tests/" << test << ", which is not there";
    }
  }
}

}  // namespace
}  // namespace house
