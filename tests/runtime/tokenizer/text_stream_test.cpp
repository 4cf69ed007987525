// Checks text that grows token by token.
#include "runtime/tokenizer/text_stream.h"

#include <gmock/gmock.h>

#include "tests/runtime/tokenizer/documents.h"

namespace runtime::tokenizer {
namespace {

// What each id adds, and what is left at the end.
std::vector<std::string> streamed(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  TextStream stream(tokenizer);
  std::vector<std::string> texts;
  for (const int32_t id : ids) texts.push_back(stream.add(id));
  texts.push_back(stream.finish());
  return texts;
}

using testing::ElementsAre;

TEST(TextStream, WordsKeepTheirSpaces) {
  const auto tokenizer = test::tokenizer_of(
      R"({"type": "WordPiece", "vocab": {"un": 0, "##able": 1, "to": 2, ".": 3}})",
      R"("decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true})");
  EXPECT_THAT(streamed(*tokenizer, {0, 1, 2, 2, 3}),
              ElementsAre("un", "able", " to", " to", ".", ""));
}

TEST(TextStream, ACharacterWaitsForItsLastByte) {
  const auto tokenizer = test::tokenizer_of(
      R"({"type": "BPE", "vocab": {"a": 0, "<0xC3>": 1, "<0xA9>": 2}, "merges": []})",
      R"("decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]})");
  EXPECT_THAT(streamed(*tokenizer, {0, 1, 2, 0}), ElementsAre("a", "", "é", "a", ""));
  EXPECT_THAT(streamed(*tokenizer, {0, 1}), ElementsAre("a", "", "\uFFFD"));
  EXPECT_THAT(streamed(*tokenizer, {}), ElementsAre(""));
}

TEST(TextStream, BytesThatAreNoTextDoNotWaitForEver) {
  const auto tokenizer =
      test::tokenizer_of(R"({"type": "BPE", "vocab": {"<0xC3>": 0}, "merges": []})",
                         R"("decoder": {"type": "ByteFallback"})");
  TextStream stream(*tokenizer);
  std::string text;
  for (int i = 0; i < 100; ++i) text += stream.add(0);
  EXPECT_GT(text.size(), 200u);
}

}  // namespace
}  // namespace runtime::tokenizer
