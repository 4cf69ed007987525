// Checks tokenizers of characters, bytes and numbers, and how tokenizers are named.
#include "runtime/data/tokenizer.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "tests/runtime/data/files.h"

namespace runtime::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int32_t> encode(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<int32_t> ids;
  tokenizer.encode(text, "text", [&](int32_t id) { ids.push_back(id); });
  return ids;
}

std::string decode(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  return tokenizer.decode(ids);
}

TokenizerPointer make(const std::string& kind, const std::string& characters = "",
                      int64_t vocabulary = 0) {
  DatasetOptions options;
  options.tokenizer = kind;
  return make_tokenizer(options, characters, vocabulary);
}

TEST(CharacterTokenizer, IdsAreInTheOrderOfCodePoints) {
  const std::string text = "hé\nllo é€";
  const std::string characters = characters_of(text, "text");
  EXPECT_EQ(characters, "\n hloé€");
  const auto tokenizer = make("char", characters);
  EXPECT_EQ(tokenizer->vocabulary(), 7);
  EXPECT_THAT(encode(*tokenizer, "€\nhé"), ElementsAre(6, 0, 2, 5));
  EXPECT_EQ(decode(*tokenizer, encode(*tokenizer, text)), text);
}

TEST(CharacterTokenizer, NamesWhatItDoesNotKnow) {
  const auto tokenizer = make("char", "ab");
  EXPECT_THAT(test::message_of([&] { encode(*tokenizer, "abüa"); }),
              HasSubstr("text: at byte 2: the character 'ü' is none of the 2"));
  EXPECT_THAT(test::message_of([&] { encode(*tokenizer, "a\xFF"); }), HasSubstr("at byte 1"));
  EXPECT_THAT(test::message_of([&] { make("char", "aba"); }), HasSubstr("at byte 2"));
}

TEST(ByteTokenizer, TakesAnyByte) {
  const auto tokenizer = make("byte");
  EXPECT_EQ(tokenizer->vocabulary(), 256);
  EXPECT_THAT(encode(*tokenizer, "a\xFF"), ElementsAre(97, 255));
  EXPECT_EQ(decode(*tokenizer, {97, 255}), "a\xFF");
}

TEST(NumberTokenizer, ReadsAndWritesIds) {
  const auto tokenizer = make("", "", 100);
  EXPECT_THAT(encode(*tokenizer, " 7 99\n0 "), ElementsAre(7, 99, 0));
  EXPECT_EQ(decode(*tokenizer, {7, 99}), "7 99 ");
  for (const char* bad : {"7 100", "7 -1", "7 x", "7 99999999999"}) {
    EXPECT_THAT(test::message_of([&] { encode(*tokenizer, bad); }),
                HasSubstr("at byte 2: no token id; expected numbers in 0..99"));
  }
}

TEST(Tokenizer, RefusesAnUnknownKind) {
  EXPECT_THROW(make("word"), ConfigurationError);
  EXPECT_THROW(make("gpt2"), ConfigurationError);
  EXPECT_THROW(make("hf"), ConfigurationError);
}

TEST(Tokenizer, OfHuggingFaceIsAFileOrItsFolder) {
  const test::TempFolder folder;
  const std::string file = folder.write(
      "tokenizer.json",
      R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})");
  DatasetOptions options;
  options.tokenizer = "hf";
  for (const std::string& path : {file, folder.path()}) {
    options.tokenizer_path = path;
    const auto tokenizer = make_tokenizer(options, "", 0);
    EXPECT_EQ(tokenizer->vocabulary(), 3);
    EXPECT_THAT(encode(*tokenizer, "aba"), ElementsAre(2, 0));
  }
  std::filesystem::remove(file);
  EXPECT_THAT(test::message_of([&] { make_tokenizer(options, "", 0); }),
              HasSubstr("tokenizer.json: No such file or directory; check the path"));
}

}  // namespace
}  // namespace runtime::data
