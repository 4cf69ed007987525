// Checks whole tokenizers: what is read of a file, and how the components work together.
#include "runtime/tokenizer/pipeline.h"

#include <gmock/gmock.h>

#include "tests/runtime/tokenizer/documents.h"

namespace runtime::tokenizer {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Pipeline, RunsTheComponentsInTheirOrder) {
  const auto tokenizer = test::tokenizer_of(
      R"({"type": "BPE", "vocab": {"\u2581": 0, "a": 1, "\u2581a": 2, "b": 3, "</s>": 4}, "merges": ["\u2581 a"]})",
      R"("version": "1.0", "truncation": {"max_length": 1}, "padding": null,
         "normalizer": {"type": "Lowercase"},
         "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": true},
         "post_processor": {"type": "BertProcessing", "sep": ["</s>", 4], "cls": ["</s>", 4]},
         "decoder": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": true},
         "added_tokens": [{"id": 4, "content": "</s>", "special": true}])");
  const std::vector<int32_t> ids = test::encode(*tokenizer, "A b</s>a");
  EXPECT_THAT(ids, ElementsAre(2, 0, 3, 4, 1));
  EXPECT_EQ(tokenizer->decode(ids), "a b</s>a");
  EXPECT_THAT(tokenizer->marked(ids).ids, ElementsAre(4, 2, 0, 3, 4, 1, 4));
  EXPECT_EQ(tokenizer->vocabulary(), 5);
}

TEST(Pipeline, TextThatIsNotUtf8IsRefusedWithTheByte) {
  const auto tokenizer = test::tokenizer_of(test::kSmallBpe);
  EXPECT_THAT(test::refusal([&] { test::encode(*tokenizer, "ab\xFF"); }),
              AllOf(HasSubstr("text: at byte 2: the byte 255 begins no character; expected UTF-8"),
                    HasSubstr("dataset.invalid_utf8 = \"replace\"")));
}

TEST(Pipeline, FilesThatAreNoTokenizersAreRefused) {
  const auto refused = [](const std::string& text) {
    return test::refusal([&] { read_tokenizer({"tokenizer.json", text}); });
  };
  for (const char* text : {"", "[]", "{", "3", "{\"model\": \"\xFF\"}", "{\"a\": 1,}"})
    EXPECT_THAT(refused(text), HasSubstr("tokenizer.json: no JSON object; expected the file"))
        << text;
  EXPECT_THAT(refused("{}"), HasSubstr("tokenizer.json: model: the type \"WordLevel\""));
  EXPECT_THAT(refused(test::document(test::kSmallBpe, "\"decoder\": 3")),
              HasSubstr("tokenizer.json: decoder is 3; expected an object"));
  EXPECT_THAT(refused(std::string(100000, '[')), HasSubstr("no JSON object"));
}

TEST(Pipeline, TokenizersWithoutSpecialTokensMarkNothing) {
  const auto tokenizer = test::tokenizer_of(test::kSmallBpe);
  EXPECT_THAT(tokenizer->marked(std::vector<int32_t>{3, 1}).ids, ElementsAre(3, 1));
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{3, 1}), "ab b");
}

}  // namespace
}  // namespace runtime::tokenizer
