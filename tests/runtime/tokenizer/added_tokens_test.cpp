// Checks how added tokens are found. The expected ids are those of the library tokenizers 0.23.
#include "runtime/tokenizer/added_tokens.h"

#include <gmock/gmock.h>

#include "tests/runtime/tokenizer/documents.h"

namespace runtime::tokenizer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const char kCharacters[] =
    R"({"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, " ": 3, "?": 4, "<": 5, "A": 6, "m": 7, "s": 8,
        ">": 9}, "merges": [], "unk_token": "?"})";
const char kAdded[] = R"("normalizer": {"type": "Lowercase"}, "added_tokens": [
    {"id": 10, "content": "<s>", "normalized": false, "special": true},
    {"id": 11, "content": "<m>", "lstrip": true, "rstrip": true, "normalized": false, "special": false},
    {"id": 12, "content": "AB", "normalized": true, "special": false},
    {"id": 13, "content": "ca", "single_word": true, "normalized": false, "special": false},
    {"id": 14, "content": "<s><s>", "normalized": false, "special": true}])";

TEST(AddedTokens, AreFoundAsTheLibraryFindsThem) {
  const auto tokenizer = test::tokenizer_of(kCharacters, kAdded);
  const auto ids = [&](const std::string& text) { return test::encode(*tokenizer, text); };
  EXPECT_THAT(ids("a<s>b"), ElementsAre(0, 10, 1));
  EXPECT_THAT(ids("a <m> \n b"), ElementsAre(0, 11, 1));
  EXPECT_THAT(ids("abAB"), ElementsAre(12, 12));
  EXPECT_THAT(ids("ca cab (ca)ca_"), ElementsAre(13, 3, 2, 12, 3, 4, 13, 4, 2, 0, 4));
  EXPECT_THAT(ids("<s><s><s>"), ElementsAre(14, 10));
  EXPECT_THAT(ids("<S>"), ElementsAre(5, 8, 9));
  EXPECT_THAT(ids("<m><m>a"), ElementsAre(11, 11, 0));
  EXPECT_THAT(ids(" <m> <m> "), ElementsAre(11, 11));
  EXPECT_EQ(tokenizer->vocabulary(), 15);
  EXPECT_TRUE(tokenizer->is_special(10));
  EXPECT_FALSE(tokenizer->is_special(11));
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{12, 14, 99, 0}), "ab <s><s> a");
}

// A vocabulary of Unigram may have a token twice.
TEST(AddedTokens, AreSpecialByTheirText) {
  const auto tokenizer =
      test::tokenizer_of(R"({"type": "Unigram", "vocab": [["</s>", 0], ["a", -1], ["</s>", -2]]})",
                         R"("added_tokens": [{"id": 0, "content": "</s>", "special": true}])");
  EXPECT_TRUE(tokenizer->is_special(0));
  EXPECT_FALSE(tokenizer->is_special(1));
  EXPECT_TRUE(tokenizer->is_special(2));
}

TEST(AddedTokens, OfTheModelKeepTheirIds) {
  const auto tokenizer = test::tokenizer_of(
      kCharacters, R"("added_tokens": [{"id": 77, "content": "a", "special": true}])");
  EXPECT_THAT(test::encode(*tokenizer, "a"), ElementsAre(0));
  EXPECT_TRUE(tokenizer->is_special(0));
}

TEST(AddedTokens, NameWhatIsWrong) {
  const auto refused = [](const std::string& token) {
    return test::refusal(
        [&] { test::tokenizer_of(kCharacters, "\"added_tokens\": [" + token + "]"); });
  };
  EXPECT_THAT(refused("{}"),
              HasSubstr("tokenizer.json: added_tokens[0] is an object of 0; expected "
                        "an object with the key \"content\""));
  EXPECT_THAT(refused(R"({"content": "x", "id": 99999999})"),
              HasSubstr("added_tokens[0].id is 99999999; expected an integer in 0..16777215"));
}

}  // namespace
}  // namespace runtime::tokenizer
