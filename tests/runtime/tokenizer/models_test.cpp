// Checks the models BPE, WordPiece and Unigram. The expected ids are those of the library
// tokenizers 0.23.
#include <gmock/gmock.h>

#include "runtime/tokenizer/model.h"
#include "tests/runtime/tokenizer/documents.h"

namespace runtime::tokenizer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct ModelCase {
  std::string json, text;
  std::vector<int32_t> expected;
};

const char kFewWords[] =
    R"({"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":6,
        "vocab":{"[UNK]":0,"un":1,"##aff":2,"##able":3,"##a":4,"é":5,"##é":6,"unaff":7}})";
const char kScores[] =
    R"({"type":"Unigram","unk_id":0,
        "vocab":[["<unk>",0],["a",-1],["b",-1.5],["ab",-2.25],["abc",-5],["cd",-3]]})";
const char kScoresOfBytes[] =
    R"({"type":"Unigram","unk_id":0,"byte_fallback":true,
        "vocab":[["<unk>",0],["a",-1],["<0xC3>",-1],["<0xA9>",-2]]})";
const char kAffixes[] =
    R"({"type":"BPE","continuing_subword_prefix":"##","end_of_word_suffix":"</w>",
        "vocab":{"a":0,"##b":1,"##c</w>":2,"ab":3,"##b</w>":4,"abc</w>":5,"a</w>":6},
        "merges":["a ##b","ab ##c</w>"]})";
const char kBytes[] =
    R"({"type":"BPE","byte_fallback":true,"unk_token":"?","vocab":{"a":0,"?":1,"<0xC3>":2,"<0xA8>":3},"merges":[]})";
// "abc" can be made of two pairs.
const char kTwoWays[] =
    R"({"type":"BPE","vocab":{"a":0,"b":1,"c":2,"ab":3,"bc":4,"abc":5},
        "merges":["b c","a bc","a b","ab c"]})";

std::string bpe_of(const std::string& more) {
  return R"({"type":"BPE",)" + more +
         R"(,"vocab":{"a":0,"b":1,"ab":2,"?":3,"aba":4},"merges":["a b"]})";
}

const ModelCase kModelCases[] = {
    {test::kSmallBpe, "abc", {4}},
    {test::kSmallBpe, "abab", {3, 3}},
    {test::kSmallBpe, "cab", {2, 3}},
    {test::kSmallBpe, "axb", {3}},
    {bpe_of(R"("unk_token":"?")"), "xya", {3, 3, 0}},
    {bpe_of(R"("unk_token":"?")"), "axyb", {0, 3, 3, 1}},
    {bpe_of(R"("unk_token":"?","fuse_unk":true)"), "xya", {3, 0}},
    {bpe_of(R"("unk_token":"?","fuse_unk":true)"), "axyb", {0, 3, 1}},
    {bpe_of(R"("ignore_merges":true)"), "aba", {4}},
    {bpe_of(R"("ignore_merges":true)"), "abab", {2, 2}},
    {bpe_of(R"("ignore_merges":false)"), "aba", {2, 0}},
    {kBytes, "èa", {2, 3, 0}},
    {kBytes, "aéa", {0, 1, 0}},
    {kBytes, "èé", {2, 3, 1}},
    {kAffixes, "abc", {5}},
    {kAffixes, "ab", {0, 4}},
    {kAffixes, "a", {6}},
    {kAffixes, "bb", {4}},
    {kTwoWays, "abc", {5}},
    {kTwoWays, "aabcc", {0, 5, 2}},
    {kFewWords, "unaffa", {7, 4}},
    {kFewWords, "unable", {1, 3}},
    {kFewWords, "unx", {0}},
    {kFewWords, "éééééé", {5, 6, 6, 6, 6, 6}},
    {kFewWords, "ééééééé", {0}},
    {kScores, "ab", {3}},
    {kScores, "abc", {4}},
    {kScores, "abcd", {3, 5}},
    {kScores, "axyb", {1, 0, 2}},
    {kScores, "xyz", {0}},
    {kScores, "a<unk>xb", {1, 0, 2}},
    {kScoresOfBytes, "aé", {1, 2, 3}},
    {kScoresOfBytes, "è", {0}},
    {kScoresOfBytes, "<0xC3>", {2}},
};

TEST(Models, MakeTheIdsOfTheLibrary) {
  for (const ModelCase& c : kModelCases)
    EXPECT_EQ(test::encode(*test::tokenizer_of(c.json), c.text), c.expected) << c.json << c.text;
}

TEST(Models, OfOldFilesAreToldByTheirKeys) {
  EXPECT_THAT(test::encode(*test::tokenizer_of(R"({"vocab":{"a":0},"merges":[]})"), "aa"),
              ElementsAre(0, 0));
  EXPECT_THAT(
      test::encode(*test::tokenizer_of(R"({"vocab":[["?",-1],["a",-1]],"unk_id":0})"), "aa"),
      ElementsAre(1, 1));
  const auto word_piece = test::tokenizer_of(
      R"({"vocab":{"a":0,"[UNK]":1},"unk_token":"[UNK]","max_input_chars_per_word":100})");
  EXPECT_THAT(test::encode(*word_piece, "ab"), ElementsAre(1));
}

TEST(Models, LongPiecesTakeNoLongTime) {
  const std::string text(300000, 'a');
  const std::string bpe =
      R"({"type":"BPE","vocab":{"a":0,"aa":1,"aaaa":2},"merges":["a a","aa aa"]})";
  EXPECT_EQ(test::encode(*test::tokenizer_of(bpe), text).size(), text.size() / 4);
  const std::string unigram = R"({"type":"Unigram","vocab":[["a",-1],["aa",-1.5],["aaa",-4]]})";
  EXPECT_EQ(test::encode(*test::tokenizer_of(unigram), text).size(), text.size() / 2);
}

// A long piece is cut where no merge joins two characters, which must change no id.
TEST(Models, LongPiecesHaveTheIdsOfTheirParts) {
  const auto tokenizer = test::tokenizer_of(
      R"({"type":"BPE","unk_token":"?","fuse_unk":true,"vocab":{"a":0,"b":1,"_":2,"_a":3,"_ab":4,"?":5},
          "merges":["_ a","_a b"]})");
  std::string text;
  std::vector<int32_t> expected;
  for (int i = 0; i < 200; ++i) {
    text += "_abb_xy";
    expected.insert(expected.end(), {4, 1, 2, 5});
  }
  EXPECT_EQ(test::encode(*tokenizer, text), expected);
}

TEST(Models, NameWhatIsWrongInAFile) {
  const auto refused = [](const std::string& model) {
    return test::refusal([&] { test::tokenizer_of(model); });
  };
  EXPECT_THAT(
      refused(R"({"type":"WordLevel"})"),
      HasSubstr("tokenizer.json: model: the type \"WordLevel\" is not supported; expected one "
                "of BPE, WordPiece, Unigram"));
  EXPECT_THAT(refused("3"), HasSubstr("the type \"WordLevel\" is not supported"));
  EXPECT_THAT(refused(bpe_of(R"("dropout":0.1)")),
              HasSubstr("model.dropout is 0.1; expected null"));
  EXPECT_EQ(refused(bpe_of(R"("dropout":0.0)")), "");
  EXPECT_THAT(refused(R"({"type":"BPE","vocab":{"a":0},"merges":["a b"]})"),
              HasSubstr("tokenizer.json: model.merges[0] is \"a b\"; expected two tokens of the "
                        "vocabulary that make a third"));
  for (const char* merge : {"\"a\"", "\"a b c\"", "[\"a\"]", "3", "[1,2]"}) {
    EXPECT_THAT(refused(std::string(R"({"type":"BPE","vocab":{"a":0},"merges":[)") + merge + "]}"),
                HasSubstr("model.merges[0] is "));
  }
  EXPECT_THAT(refused(R"({"type":"BPE","vocab":{"a":0,"":1},"merges":[["","a"]]})"),
              HasSubstr("model.merges[0] is an array of 2"));
  EXPECT_THAT(refused(R"({"type":"BPE","vocab":{"a":0}})"),
              HasSubstr("model is an object of 2; expected an object with the key \"merges\""));
  EXPECT_THAT(refused(R"({"type":"BPE","vocab":[],"merges":[]})"),
              HasSubstr("model.vocab is an array of 0; expected an object of tokens"));
  for (const char* id : {"-1", "16777216", "1.5", "\"1\"", "99999999999999999999"}) {
    EXPECT_THAT(refused(std::string(R"({"type":"BPE","merges":[],"vocab":{"a":)") + id + "}}"),
                HasSubstr("model.vocab.a is "));
  }
  EXPECT_THAT(refused(R"({"type":"Unigram","vocab":[]})"), HasSubstr("with one at least"));
  EXPECT_THAT(refused(R"({"type":"Unigram","vocab":[["a"]]})"),
              HasSubstr("model.vocab[0] is an array of 1; expected an array of a token and its"));
  EXPECT_THAT(refused(R"({"type":"Unigram","vocab":[["a",1]],"unk_id":1})"),
              HasSubstr("model.unk_id is 1; expected an integer in 0..0"));
  EXPECT_THAT(refused(R"({"type":"WordPiece","vocab":{},"max_input_chars_per_word":-1})"),
              HasSubstr("max_input_chars_per_word is -1"));
}

TEST(Models, NameTextWithoutTokens) {
  const auto refused = [](const std::string& model) {
    const auto tokenizer = test::tokenizer_of(model);
    return test::refusal([&] { test::encode(*tokenizer, "x"); });
  };
  EXPECT_THAT(refused(R"({"type":"BPE","vocab":{},"merges":[],"unk_token":"?"})"),
              HasSubstr("the unk_token \"?\" is none"));
  EXPECT_THAT(refused(R"({"type":"WordPiece","vocab":{"a":0}})"),
              HasSubstr("the word \"x\" has no tokens"));
  EXPECT_THAT(refused(R"({"type":"Unigram","vocab":[["a",0]]})"),
              HasSubstr("the text has \"x\", for which there is no token"));
}

}  // namespace
}  // namespace runtime::tokenizer
