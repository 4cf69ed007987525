// Checks which special tokens stand around texts.
#include "runtime/tokenizer/post_processor.h"

#include <gmock/gmock.h>

#include "tests/runtime/tokenizer/documents.h"

namespace runtime::tokenizer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<int32_t> kFirst = {1, 2}, kSecond = {3};

PostProcessor read(const std::string& json) { return test::read_json(read_post_processor, json); }

TEST(PostProcessor, WithoutOneTextsFollowEachOther) {
  const PostProcessor none = read("null");
  EXPECT_THAT(none.process(kFirst, {}).ids, ElementsAre(1, 2));
  EXPECT_THAT(none.process(kFirst, kSecond).ids, ElementsAre(1, 2, 3));
  EXPECT_THAT(none.process(kFirst, kSecond).segments, ElementsAre(0, 0, 1));
  EXPECT_THAT(read(R"({"type": "ByteLevel"})").process(kFirst, {}).ids, ElementsAre(1, 2));
}

TEST(PostProcessor, Bert) {
  const PostProcessor bert =
      read(R"({"type": "BertProcessing", "sep": ["[SEP]", 8], "cls": ["[CLS]", 9]})");
  EXPECT_THAT(bert.process(kFirst, {}).ids, ElementsAre(9, 1, 2, 8));
  const Marked pair = bert.process(kFirst, kSecond);
  EXPECT_THAT(pair.ids, ElementsAre(9, 1, 2, 8, 3, 8));
  EXPECT_THAT(pair.segments, ElementsAre(0, 0, 0, 0, 1, 1));
}

TEST(PostProcessor, Roberta) {
  const PostProcessor roberta = read(
      R"({"type": "RobertaProcessing", "sep": ["</s>", 8], "cls": ["<s>", 9], "trim_offsets": true})");
  EXPECT_THAT(roberta.process(kFirst, {}).ids, ElementsAre(9, 1, 2, 8));
  const Marked pair = roberta.process(kFirst, kSecond);
  EXPECT_THAT(pair.ids, ElementsAre(9, 1, 2, 8, 8, 3, 8));
  EXPECT_THAT(pair.segments, ElementsAre(0, 0, 0, 0, 0, 0, 0));
}

const char kTemplate[] = R"({"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "B", "type_id": 2}}, {"SpecialToken": {"id": "<s>", "type_id": 1}},
             {"Sequence": {"id": "A", "type_id": 0}}],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [7, 6], "tokens": ["<s>", "x"]}}})";

TEST(PostProcessor, Templates) {
  const PostProcessor processor =
      read(std::string(R"({"type": "Sequence", "processors": [{"type": "ByteLevel"}, )") +
           kTemplate + "]}");
  EXPECT_THAT(processor.process(kFirst, {}).ids, ElementsAre(7, 6, 1, 2));
  const Marked pair = processor.process(kFirst, kSecond);
  EXPECT_THAT(pair.ids, ElementsAre(3, 7, 6, 1, 2));
  EXPECT_THAT(pair.segments, ElementsAre(2, 1, 1, 0, 0));
}

TEST(PostProcessor, RefusesByName) {
  const auto refused = [](const std::string& json) { return test::refusal([&] { read(json); }); };
  EXPECT_THAT(refused(R"({"type": "Other"})"),
              HasSubstr("the type \"Other\" is not supported; expected one of TemplateProcessing"));
  EXPECT_THAT(refused(R"({"type": "BertProcessing", "sep": ["[SEP]"], "cls": ["[CLS]", 9]})"),
              HasSubstr("an array of more than 1"));
  EXPECT_THAT(
      refused(R"({"type": "TemplateProcessing", "pair": [], "special_tokens": {},
                  "single": [{"SpecialToken": {"id": "<s>"}}]})"),
      HasSubstr(
          "file: part.special_tokens is an object of 0; expected an object with the key \"<s>\""));
  EXPECT_THAT(refused(R"({"type": "TemplateProcessing", "pair": [], "special_tokens": {},
                          "single": [{"Sequence": {"id": "C"}}]})"),
              HasSubstr("single[0].Sequence.id is \"C\"; expected \"A\" or \"B\""));
  const std::string two = std::string(kTemplate) + ", " + kTemplate;
  EXPECT_THAT(refused(R"({"type": "Sequence", "processors": [)" + two + "]}"),
              HasSubstr("expected one post-processor besides ByteLevel"));
}

}  // namespace
}  // namespace runtime::tokenizer
