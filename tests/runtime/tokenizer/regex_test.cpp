// Checks searches by regular expressions.
#include "runtime/tokenizer/regex.h"

#include <gmock/gmock.h>
#include <regex.h>

#include "tests/runtime/tokenizer/documents.h"

namespace runtime::tokenizer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::vector<std::pair<std::size_t, std::size_t>> matches_of(const std::string& pattern,
                                                            const std::string& text) {
  std::vector<std::pair<std::size_t, std::size_t>> matches;
  Regex(pattern, "file: pattern").each_match(text, [&](Range match) {
    matches.emplace_back(match.begin, match.end);
  });
  return matches;
}

TEST(Regex, MatchesFromLeftToRight) {
  EXPECT_THAT(matches_of("a+", "aa é a"), ElementsAre(Pair(0, 2), Pair(6, 7)));
  EXPECT_THAT(matches_of("(?<=b)a", "aba"), ElementsAre(Pair(2, 3)));
  EXPECT_THAT(matches_of(R"((?i:'S))", "it's"), ElementsAre(Pair(2, 4)));
  EXPECT_THAT(matches_of("x", ""), ElementsAre());
}

TEST(Regex, AnEmptyMatchIsNoneDirectlyBehindAnother) {
  EXPECT_THAT(matches_of("x*", "axxé"), ElementsAre(Pair(0, 0), Pair(1, 3), Pair(5, 5)));
  EXPECT_THAT(matches_of("$", "é"), ElementsAre(Pair(2, 2)));
}

// Oniguruma has functions of the same names, with another syntax.
TEST(Regex, LeavesTheExpressionsOfPosixToTheCLibrary) {
  regex_t expression;
  ASSERT_EQ(regcomp(&expression, "^a(b|c)[0-2]$", REG_EXTENDED | REG_NOSUB), 0);
  EXPECT_EQ(regexec(&expression, "ac1", 0, nullptr, 0), 0);
  regfree(&expression);
}

TEST(Regex, RefusesWhatIsNoneOrTakesTooLong) {
  EXPECT_THAT(test::refusal([] { matches_of("a(", "a"); }),
              HasSubstr("file: pattern: \"a(\" is no regular expression: end pattern with"));
  EXPECT_THAT(test::refusal([] { matches_of(std::string(100000, 'a'), "a"); }),
              HasSubstr("the pattern has 100000 bytes; expected at most 65536"));
  EXPECT_THAT(test::refusal([] { matches_of("(a|aa)+$", std::string(60, 'a') + "b"); }),
              HasSubstr("file: pattern: the search from byte 0 of 61 failed: retry-limit"));
}

}  // namespace
}  // namespace runtime::tokenizer
