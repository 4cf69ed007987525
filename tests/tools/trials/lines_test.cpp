// Checks how output is cut into lines, and what of errors is kept.
#include "tools/trials/lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace tools::trials {
namespace {

TEST(Lines, AreCutWhereverTheTextIsSplit) {
  const std::string text = "one\n\nthree\nfour";
  for (size_t split = 0; split <= text.size(); ++split) {
    Lines lines;
    std::vector<std::string> found;
    const auto take = [&](const std::string& line) { found.push_back(line); };
    lines.add(text.substr(0, split), take);
    lines.add(text.substr(split), take);
    EXPECT_THAT(found, testing::ElementsAre("one", "", "three")) << split;
  }
}

std::string message_in(const std::string& text) {
  ErrorText error;
  for (const char c : text) error.add(std::string(1, c));
  return error.message();
}

TEST(ErrorText, IsWhatFollowsTheLastError) {
  EXPECT_EQ(message_in("note\nerror: first\nerror: last\n  more\n\n"), "last\n  more");
  EXPECT_EQ(message_in("error: only"), "only");
  EXPECT_EQ(message_in("one\nan error: inside\n"), "an error: inside");
  EXPECT_EQ(message_in("one\ntwo\n"), "two");
  EXPECT_EQ(message_in(""), "");
}

TEST(ErrorText, KeepsTheEndOfALongOutput) {
  ErrorText error;
  for (int i = 0; i < 100000; ++i) error.add("a line that is of no interest\n");
  error.add("error: the end\n");
  EXPECT_EQ(error.message(), "the end");
}

}  // namespace
}  // namespace tools::trials
