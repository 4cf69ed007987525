// Checks how large files, headers, functions and the rooms of the core are, and that each source
// says first what it does.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include "tests/house/source_files.h"

namespace house {
namespace {

constexpr size_t kFileLines = 600;
// Lines of code, because a sentence about a declaration must not count against its header.
constexpr size_t kHeaderLines = 120;
// Headers with one list or one table each, which would be worse as two files.
const std::set<std::string> kLongHeaders = {
    "backends/cpu/onednn.h",              // RAII handles of one library
    "backends/gpu/held_row.h",            // a row in registers, with what is asked of it
    "runtime/config/config.h",            // one struct for each section of a configuration
    "plugins/host/device.h",              // the handles for one table of the contract
    "plugins/include/rt/kernel.h",        // one table of the contract with its structs
    "plugins/include/rt/operations.h",    // the names of all operations
    "tests/runtime/graph/fake_target.h",  // one device made of tables
};
constexpr size_t kLongHeaderLines = 150;
// The most lines of code (without comments, blank lines and tables) of each room of the core. Lower
// a number when code goes; when one has to rise, say why in the commit. runtime/README.md has the
// table with what the rooms do.
const std::map<std::string, size_t> kRoomLines = {
    {"plugins/host", 4174},     {"plugins/include", 864},    {"plugins/sdk", 2684},
    {"plugins/validate", 2493}, {"runtime/analysis", 1481},  {"runtime/cli", 3229},
    {"runtime/config", 4233},   {"runtime/data", 6608},      {"runtime/exchange", 1590},
    {"runtime/exec", 4136},     {"runtime/graph", 5551},     {"runtime/launch", 4085},
    {"runtime/model", 2282},    {"runtime/parallel", 3371},  {"runtime/session", 1466},
    {"runtime/step", 1627},     {"runtime/system", 538},     {"runtime/tensor", 694},
    {"runtime/terminal", 419},  {"runtime/tokenizer", 2204}, {"runtime/train", 7056},
    {"runtime/watch", 1349},
};
// A function does one thing: the longest body, and how many lines the median and nine of ten may
// have.
constexpr size_t kFunctionLines = 60, kMedianFunctionLines = 8, kNinthDecileFunctionLines = 25;

std::vector<SourceFile> all_files() {
  std::vector<SourceFile> files;
  for (const char* folder : {"plugins", "backends", "collectives", "runtime", "tests", "tools"}) {
    for (SourceFile& file : source_files(folder)) files.push_back(std::move(file));
  }
  return files;
}

TEST(Sizes, NoFileAboveSixHundredLines) {
  for (const SourceFile& file : all_files())
    EXPECT_LE(file.lines.size(), kFileLines) << file.path << " is two files";
}

TEST(FirstLines, SayWhatAFileDoes) {
  for (const SourceFile& file : all_files()) {
    const std::string first = file.lines.empty() ? "" : file.lines.front();
    EXPECT_TRUE(first.starts_with("//") || first.starts_with("/*"))
        << file.path << " begins with \"" << first
        << "\"; expected a comment that says what it does";
  }
}

// A thread may read a table while another one ends the process by exit(), as libraries of vendors
// do; so tables are never destroyed: `static const std::vector<Row>& rows = *new
// std::vector<Row>{...};`.
TEST(Tables, AreNeverDestroyed) {
  const std::regex destroyed(
      R"(\s+static const std::(vector|map|set|unordered_map|string)\b[^&]*[;=({].*)");
  for (const char* folder : {"runtime", "plugins/host"}) {
    for (const SourceFile& file : source_files(folder)) {
      for (const std::string& line : file.lines) {
        EXPECT_FALSE(std::regex_match(line, destroyed)) << file.path << ": " << line;
      }
    }
  }
}

TEST(Sizes, HeadersHoldOneConcept) {
  for (const SourceFile& file : all_files()) {
    if (!file.is_header()) continue;
    const size_t limit = kLongHeaders.contains(file.path) ? kLongHeaderLines : kHeaderLines;
    EXPECT_LE(file.code_lines(), limit) << file.path;
  }
}

TEST(Sizes, ExceptionsAreStillNeeded) {
  std::set<std::string> needed;
  for (const SourceFile& file : all_files()) {
    if (file.is_header() && file.code_lines() > kHeaderLines) needed.insert(file.path);
  }
  for (const std::string& path : kLongHeaders) EXPECT_TRUE(needed.contains(path)) << path;
}

std::vector<SourceFile> core_files() {
  std::vector<SourceFile> files;
  for (const char* folder :
       {"runtime", "plugins/include", "plugins/sdk", "plugins/host", "plugins/validate"}) {
    for (SourceFile& file : source_files(folder)) files.push_back(std::move(file));
  }
  return files;
}

TEST(Sizes, EachRoomOfTheCoreKeepsItsBudget) {
  std::map<std::string, size_t> lines;
  for (const SourceFile& file : core_files()) {
    // Files that lie in runtime/ itself belong to no room.
    if (std::count(file.path.begin(), file.path.end(), '/') > 1)
      lines[file.room()] += file.code_lines_outside_of_tables();
  }
  for (const auto& [room, count] : lines) {
    RecordProperty(room, static_cast<int>(count));
    ASSERT_TRUE(kRoomLines.contains(room)) << room << " needs a budget";
    EXPECT_LE(count, kRoomLines.at(room)) << room;
  }
  EXPECT_EQ(lines.size(), kRoomLines.size()) << "a room with a budget does not exist";
}

TEST(Sizes, FunctionsAreShort) {
  std::vector<size_t> lengths;
  for (const SourceFile& file : core_files()) {
    for (const Function& function : file.functions()) {
      EXPECT_LE(function.code_lines, kFunctionLines) << file.path << ":" << function.first_line;
      lengths.push_back(function.code_lines);
    }
  }
  ASSERT_GT(lengths.size(), 1500u) << "the functions were not found";
  std::sort(lengths.begin(), lengths.end());
  RecordProperty("functions", static_cast<int>(lengths.size()));
  RecordProperty("longest", static_cast<int>(lengths.back()));
  EXPECT_LE(lengths[lengths.size() / 2], kMedianFunctionLines);
  EXPECT_LE(lengths[lengths.size() * 9 / 10], kNinthDecileFunctionLines);
}

}  // namespace
}  // namespace house
