// Tables of texts: special tokens, padding, two texts, what is cut, and what is refused.
#include <gmock/gmock.h>

#include "runtime/data/open.h"
#include "runtime/error.h"
#include "tests/runtime/data/files.h"

namespace runtime::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kTokenizer = R"({
  "version": "1.0", "truncation": null, "padding": null,
  "added_tokens": [
    {"id": 0, "content": "[PAD]", "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false},
    {"id": 1, "content": "[CLS]", "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false},
    {"id": 2, "content": "[SEP]", "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false}],
  "normalizer": null, "pre_tokenizer": {"type": "Whitespace"},
  "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]},
  "decoder": null,
  "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
            "vocab": {"[PAD]": 0, "[CLS]": 1, "[SEP]": 2, "[UNK]": 3, "a": 4, "b": 5, "c": 6, "d": 7}}
})";

class Sentences : public testing::Test {
 protected:
  DatasetOptions table(const std::string& content, std::vector<std::string> texts) {
    DatasetOptions options;
    options.format = "sentences";
    options.path = folder_.write("a.csv", content);
    options.texts = std::move(texts);
    options.target = "y";
    options.tokenizer = "hf";
    options.tokenizer_path = folder_.write("tokenizer.json", kTokenizer);
    options.shape = {6};
    return options;
  }
  static std::vector<int32_t> input(const Dataset& dataset, int64_t index,
                                    const std::string& name) {
    std::vector<int32_t> out(static_cast<std::size_t>(dataset.spec().shape[0]));
    dataset.read_input({&index, 1}, *dataset.spec().find_input(name), {nullptr, out.data()});
    return out;
  }
  const test::TempFolder folder_;
};

TEST_F(Sentences, HaveSpecialTokensAndPadding) {
  const DatasetPair pair = open_dataset(table("text,y\na b,1\n\"c, a\",0\n,1\n", {"text"}));
  const Dataset& data = *pair.train;
  EXPECT_EQ(data.size(), 3);
  EXPECT_EQ(data.spec().vocabulary, 8);
  EXPECT_EQ(data.spec().classes, 2);
  EXPECT_EQ(data.spec().labels, 1);
  EXPECT_THAT(test::features_of(data, 0), ElementsAre(1, 4, 5, 2, 0, 0));
  EXPECT_THAT(input(data, 0, "segments"), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(input(data, 0, "documents"), ElementsAre(0, 0, 0, 0, -1, -1));
  EXPECT_THAT(test::features_of(data, 1), ElementsAre(1, 6, 3, 4, 2, 0)) << "the comma is unknown";
  EXPECT_THAT(test::features_of(data, 2), ElementsAre(1, 2, 0, 0, 0, 0)) << "an empty text";
  EXPECT_EQ(data.label(0), 1);
  EXPECT_EQ(data.label(1), 0);
  EXPECT_THAT(pair.preparation.tokenizer, HasSubstr("hf "));
  EXPECT_TRUE(pair.notes.empty());
}

TEST_F(Sentences, OfTwoTextsHaveSegments) {
  DatasetOptions options = table("first,second,y\na,b,no\nb b,c,yes\n", {"first", "second"});
  options.shape = {8};
  const DatasetPair pair = open_dataset(options);
  EXPECT_THAT(pair.preparation.class_names, ElementsAre("no", "yes"));
  EXPECT_THAT(test::features_of(*pair.train, 1), ElementsAre(1, 5, 5, 2, 6, 2, 0, 0));
  EXPECT_THAT(input(*pair.train, 1, "segments"), ElementsAre(0, 0, 0, 0, 1, 1, 0, 0));
  EXPECT_THAT(input(*pair.train, 1, "documents"), ElementsAre(0, 0, 0, 0, 0, 0, -1, -1));
  EXPECT_EQ(pair.train->spec().inputs[0].most, 1);
}

// The longer of the two loses tokens first; the end of a text is cut.
TEST_F(Sentences, ThatAreTooLongAreCutAndCounted) {
  const DatasetPair one = open_dataset(table("text,y\na b c d a b,1\na,0\n", {"text"}));
  EXPECT_THAT(test::features_of(*one.train, 0), ElementsAre(1, 4, 5, 6, 7, 2));
  ASSERT_EQ(one.notes.size(), 1u);
  EXPECT_THAT(one.notes[0], HasSubstr("1 of 2 samples are longer than 6 tokens"));
  const DatasetPair two =
      open_dataset(table("text,other,y\na b c d,b,1\na,b,0\n", {"text", "other"}));
  EXPECT_THAT(test::features_of(*two.train, 0), ElementsAre(1, 4, 5, 2, 5, 2));
}

TEST_F(Sentences, OfARegressionAndWithoutTargets) {
  DatasetOptions options = table("text,y\na,0.5\nb,2\n", {"text"});
  options.classification = false;
  float target = 0;
  open_dataset(options).train->read_targets(1, &target);
  EXPECT_EQ(target, 2);
  options = table("text\na\nb\n", {"text"});
  options.classification = false;
  options.needs_targets = false;
  Preparation three;
  three.targets = 3;
  options.preparation = std::make_shared<Preparation>(three);
  const DatasetPair pair = open_dataset(options);
  EXPECT_FALSE(pair.labelled);
  EXPECT_EQ(pair.train->spec().targets, 3);
}

TEST_F(Sentences, ValidationHasTheClassesOfTheTraining) {
  DatasetOptions options = table("text,y\na,no\nb,yes\n", {"text"});
  options.validation_path = folder_.write("v.csv", "text,y\nc,yes\n");
  EXPECT_EQ(open_dataset(options).validation->label(0), 1);
  options.validation_path = folder_.write("w.csv", "text,y\nc,perhaps\n");
  EXPECT_THAT(test::message_of([&] { open_dataset(options); }), HasSubstr("\"perhaps\""));
}

TEST_F(Sentences, ThatCannotBeReadAreRefused) {
  const auto refusal = [](const DatasetOptions& options) -> std::string {
    try {
      open_dataset(options);
    } catch (const Error& error) {
      return error.what();
    }
    return "taken";
  };
  const std::string content = "text,y\na,1\n";
  DatasetOptions options = table(content, {});
  EXPECT_THAT(refusal(options), HasSubstr("expected one column of texts, or two"));
  options.texts = {"words"};
  EXPECT_THAT(refusal(options), HasSubstr("there is no column \"words\""));
  options = table(content, {"text"});
  options.tokenizer = "char";
  EXPECT_THAT(refusal(options), HasSubstr("expected byte, gpt2 or hf"));
  options = table(content, {"text"});
  options.shape = {2};
  EXPECT_THAT(refusal(options), HasSubstr("2 special tokens around a sample"));
  options.shape = {3, 4, 4};
  EXPECT_THAT(refusal(options), HasSubstr("expected [length]"));
  options = table("text,y\n\xFF,1\n", {"text"});
  EXPECT_THAT(refusal(options), AllOf(HasSubstr("sample 0"), HasSubstr("UTF-8")));
  options.replaces_invalid_utf8 = true;
  EXPECT_EQ(refusal(options), "taken");
  options = table("text,y\na,1\n,0\n", {"text"});
  options.tokenizer = "byte";
  options.tokenizer_path = "";
  EXPECT_THAT(refusal(options), HasSubstr("sample 1 has no token"));
}

}  // namespace
}  // namespace runtime::data
