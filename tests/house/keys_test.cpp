// Checks that something reads each key of a configuration.
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "tests/house/source_files.h"

namespace house {
namespace {

// The words of all lines that the first group of `pattern` matches.
void add_words(const SourceFile& file, const std::regex& pattern, std::set<std::string>& words) {
  for (const std::string& line : file.lines) {
    for (std::sregex_iterator at(line.begin(), line.end(), pattern), end; at != end; ++at)
      words.insert((*at)[1]);
  }
}

// A key that is declared for a member that nothing reads would be accepted and change nothing.
TEST(Keys, AreRead) {
  const std::regex declaration(R"(&\w+::(\w+))"), access(R"((?:\.|->)(\w+))");
  std::set<std::string> declared, read;
  for (const SourceFile& file : source_files("runtime")) {
    const bool schema = file.path.starts_with("runtime/config/schema_");
    add_words(file, schema ? declaration : access, schema ? declared : read);
  }
  EXPECT_GT(declared.size(), 100u) << "the declarations were not found";
  for (const std::string& member : declared)
    EXPECT_TRUE(read.contains(member))
        << "runtime/config declares a key for the member '" << member << "', but nothing reads it";
}

}  // namespace
}  // namespace house
