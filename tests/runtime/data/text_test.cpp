// Texts and files of token ids, as samples of a language model.
#include <gmock/gmock.h>

#include <filesystem>

#include "runtime/data/loader.h"
#include "runtime/data/open.h"
#include "runtime/data/text_pieces.h"
#include "runtime/data/tokens.h"
#include "runtime/error.h"
#include "tests/runtime/data/files.h"

namespace runtime::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<float> features(const Dataset& dataset, int64_t index) {
  std::vector<float> out(static_cast<std::size_t>(dataset.spec().shape[0]));
  dataset.read_features(index, out.data());
  return out;
}

std::vector<int32_t> labels(const Dataset& dataset, int64_t index) {
  std::vector<int32_t> out(static_cast<std::size_t>(dataset.spec().labels));
  dataset.read_labels(index, out.data());
  return out;
}

class Text : public testing::Test {
 protected:
  DatasetOptions text(const std::string& content, int64_t context) {
    DatasetOptions options;
    options.format = "text";
    options.tokenizer = "char";
    options.path = folder_.write("a.txt", content);
    options.shape = {context};
    return options;
  }
  template <class Id>
  DatasetOptions tokens(const std::vector<Id>& ids, int64_t context) {
    DatasetOptions options;
    options.format = "tokens";
    options.token_type = sizeof(Id) == 2 ? "uint16" : "uint32";
    options.path = folder_.write("a.bin", test::raw(ids));
    options.shape = {context};
    return options;
  }

  const test::TempFolder folder_;
};

// Files of tokens are samples like those of their text.
TEST_F(Text, TokenFilesHoldTheTokensOfTheText) {
  DatasetOptions options = text("to be, or not to be: that is the question", 5);
  options.tokenizer = "byte";
  options.validation_path = folder_.write("v.txt", "whether 'tis nobler");
  const TokenFiles files = write_token_files(options, folder_.path());
  EXPECT_EQ(files.token_type, "uint16");
  EXPECT_EQ(files.vocabulary, 256);
  EXPECT_EQ(files.train, 41);
  EXPECT_EQ(files.validation, 19);
  const DatasetPair of_text = open_dataset(options);
  DatasetOptions of_files = options;
  of_files.format = "tokens";
  of_files.path = folder_.path("train.bin");
  of_files.validation_path = folder_.path("validation.bin");
  const DatasetPair again = open_dataset(of_files);
  ASSERT_EQ(again.train->size(), of_text.train->size());
  for (int64_t i = 0; i < again.train->size(); ++i)
    EXPECT_EQ(features(*again.train, i), features(*of_text.train, i));
  EXPECT_EQ(features(*again.validation, 1), features(*of_text.validation, 1));
  EXPECT_EQ(again.train->spec().classes, of_text.train->spec().classes);
}

TEST_F(Text, OfCharactersThereAreNoTokenFiles) {
  const DatasetOptions options = text("abcdef", 2);
  EXPECT_THROW(write_token_files(options, folder_.path()), ConfigurationError);
  EXPECT_FALSE(std::filesystem::exists(folder_.path("train.bin")));
}

TEST_F(Text, AByteOrderMarkIsNoCharacter) {
  DatasetOptions options = text(
      "\xEF\xBB\xBF"
      "abcdefghij",
      3);
  EXPECT_EQ(open_dataset(options).train->description(),
            "a.txt, 10 tokens of 10 kinds, 3 samples of 3");
  options.tokenizer = "byte";
  EXPECT_EQ(features(*open_dataset(options).train, 0)[0], 'a');
}

TEST_F(Text, BytesThatAreNotUtf8AreRefusedOrReplaced) {
  DatasetOptions options = text(
      "abc\xFF"
      "abc",
      2);
  EXPECT_THAT(test::message_of([&] { open_dataset(options); }),
              HasSubstr("a.txt: at byte 3: the byte 255 begins no character"));
  options.replaces_invalid_utf8 = true;
  EXPECT_EQ(open_dataset(options).train->spec().characters, "abc\uFFFD");
}

// More than 65536 tokens, whose ids do not fit into 16 bits.
TEST_F(Text, LargeVocabularies) {
  DatasetOptions options = text("ababab", 2);
  options.tokenizer = "hf";
  options.tokenizer_path = folder_.write(
      "tokenizer.json",
      R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 100000}, "merges": ["a b"]}})");
  const DatasetPair pair = open_dataset(options);
  EXPECT_EQ(pair.train->spec().classes, 100001);
  EXPECT_THAT(features(*pair.train, 0), ElementsAre(100000, 100000));
}

TEST_F(Text, TheShareOfValidationIsADecimalNumber) {
  DatasetOptions options = text(std::string(50, 'a') + std::string(50, 'b'), 3);
  options.validation_split = 0.34;
  const DatasetPair pair = open_dataset(options);
  EXPECT_THAT(pair.train->description(), HasSubstr("66 tokens"));
  EXPECT_THAT(pair.validation->description(), HasSubstr("34 tokens"));
}

TEST_F(Text, SamplesAreWindowsAndTheTokensAfter) {
  const DatasetPair pair = open_dataset(text("abcdefghij", 3));
  const Dataset& train = *pair.train;
  EXPECT_EQ(pair.validation, nullptr);
  EXPECT_EQ(train.description(), "a.txt, 10 tokens of 10 kinds, 3 samples of 3");
  EXPECT_THAT(train.spec().shape, ElementsAre(3));
  EXPECT_EQ(train.spec().classes, 10);
  EXPECT_EQ(train.spec().labels, 3);
  EXPECT_EQ(train.spec().characters, "abcdefghij");
  EXPECT_THAT(features(train, 0), ElementsAre(0, 1, 2));
  EXPECT_THAT(labels(train, 0), ElementsAre(1, 2, 3));
  EXPECT_THAT(features(train, 2), ElementsAre(6, 7, 8));
  EXPECT_THAT(labels(train, 2), ElementsAre(7, 8, 9));
  EXPECT_EQ(train.label(2), 7);
}

TEST_F(Text, StrideIsOfTrainingOnly) {
  DatasetOptions options = text("abcdefghijklmnopqrst", 4);
  options.stride = 1;
  options.validation_split = 0.5;
  const DatasetPair pair = open_dataset(options);
  EXPECT_EQ(pair.train->size(), 6);  // windows of 4 tokens and the one after them, in 10 tokens
  EXPECT_THAT(features(*pair.train, 5), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(labels(*pair.train, 5), ElementsAre(6, 7, 8, 9));
  EXPECT_EQ(pair.validation->size(), 2);
  EXPECT_THAT(features(*pair.validation, 1), ElementsAre(14, 15, 16, 17));
  EXPECT_EQ(pair.validation->spec().classes, 20);
}

TEST_F(Text, ValidationFileHasTheCharactersOfTheTrainingText) {
  DatasetOptions options = text("hello world", 2);
  options.validation_path = folder_.write("v.txt", "low");
  const DatasetPair pair = open_dataset(options);
  EXPECT_EQ(pair.validation->size(), 1);
  EXPECT_EQ(pair.validation->spec().characters, " dehlorw");
  EXPECT_THAT(features(*pair.validation, 0), ElementsAre(4, 5));
  folder_.write("v.txt", "low?");
  EXPECT_THAT(test::message_of([&] { open_dataset(options); }),
              AllOf(HasSubstr("v.txt: at byte 3"), HasSubstr("'?'")));
}

TEST_F(Text, BytesAndCompressedFiles) {
  DatasetOptions options = text(test::gzip("a\xFF\n"), 2);
  options.tokenizer = "byte";
  const DatasetPair pair = open_dataset(options);
  EXPECT_EQ(pair.train->spec().classes, 256);
  EXPECT_THAT(features(*pair.train, 0), ElementsAre(97, 255));
  EXPECT_THAT(labels(*pair.train, 0), ElementsAre(255, 10));
}

TEST_F(Text, IsFoundByName) {
  DatasetOptions options;
  options.name = "tiny_shakespeare";
  options.tokenizer = "char";
  options.shape = {2};
  options.search_path = {folder_.path("none"), folder_.path()};
  EXPECT_THAT(test::message_of([&] { open_dataset(options); }),
              AllOf(HasSubstr("tiny_shakespeare not found"), HasSubstr("RUNTIME_DATA_PATH")));
  folder_.write("input.txt", "abc");
  EXPECT_EQ(open_dataset(options).train->spec().classes, 3);
  folder_.write("tinyshakespeare/input.txt", "abcd");
  EXPECT_EQ(open_dataset(options).train->spec().classes, 4);
  options.path = folder_.path();
  EXPECT_EQ(open_dataset(options).train->spec().classes, 3);
  options.path = folder_.path("tinyshakespeare/input.txt");
  EXPECT_EQ(open_dataset(options).train->spec().classes, 4);
}

TEST_F(Text, TokenFilesOfBothTypes) {
  const DatasetPair narrow = open_dataset(tokens<uint16_t>({5, 65535, 7, 8, 9}, 4));
  EXPECT_EQ(narrow.train->spec().classes, 65536);
  EXPECT_THAT(features(*narrow.train, 0), ElementsAre(5, 65535, 7, 8));
  EXPECT_THAT(labels(*narrow.train, 0), ElementsAre(65535, 7, 8, 9));
  DatasetOptions options = tokens<uint32_t>({1, 100000, 3, 16777215}, 1);
  const DatasetPair wide = open_dataset(options);
  EXPECT_EQ(wide.train->spec().classes, 1 << 24);
  EXPECT_THAT(features(*wide.train, 1), ElementsAre(100000));
  EXPECT_THAT(labels(*wide.train, 2), ElementsAre((1 << 24) - 1));
}

// The window is longer than the chunk that is read at once.
TEST_F(Text, LongWindows) {
  std::vector<uint16_t> ids(5001);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<uint16_t>(i);
  const DatasetPair pair = open_dataset(tokens(ids, 2500));
  ASSERT_EQ(pair.train->size(), 2);
  const std::vector<float> x = features(*pair.train, 1);
  const std::vector<int32_t> y = labels(*pair.train, 1);
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(x[i], 2500 + i);
    ASSERT_EQ(y[i], 2501 + static_cast<int32_t>(i));
  }
}

TEST_F(Text, BrokenTokenFiles) {
  const auto refused = [&](const DatasetOptions& options) {
    return test::message_of([&] {
      const DatasetPair pair = open_dataset(options);
      for (int64_t i = 0; i < pair.train->size(); ++i) labels(*pair.train, i);
    });
  };
  DatasetOptions options = tokens<uint16_t>({1, 2, 300, 4}, 1);
  options.classes = 256;
  EXPECT_THAT(refused(options), AllOf(HasSubstr("a.bin: at byte 4: token 300; expected 0..255")));
  options.tokenizer = "byte";
  options.classes = 0;
  EXPECT_THAT(refused(options), HasSubstr("expected 0..255"));
  EXPECT_THAT(refused(tokens<uint32_t>({1, 1 << 24}, 1)), HasSubstr("at byte 4: token 16777216"));
  EXPECT_THAT(refused(tokens<uint32_t>({1, 0xFFFFFFFF}, 1)), HasSubstr("token 4294967295"));
  options = tokens<uint16_t>({1, 2}, 1);
  folder_.write("a.bin", "abc");
  EXPECT_THAT(refused(options),
              HasSubstr("at byte 2: the file has 3 bytes; expected a multiple of 2"));
  options.token_type = "uint32";
  EXPECT_THAT(refused(options), HasSubstr("expected a multiple of 4"));
  folder_.write("a.bin", "");
  EXPECT_THAT(refused(options), HasSubstr("the file has 0 bytes"));
  options.path = folder_.path("missing.bin");
  EXPECT_THAT(refused(options), HasSubstr("check the path"));
  options.path = folder_.path();
  EXPECT_THAT(refused(options), HasSubstr("it is a folder"));
}

TEST_F(Text, AFileThatIsCutWhileItIsInUseIsAnError) {
  DatasetOptions options = tokens<uint16_t>({1, 2, 3, 4, 5, 6}, 2);
  options.classes = 10;
  const DatasetPair pair = open_dataset(options);
  std::filesystem::resize_file(options.path, 6);
  EXPECT_THAT(features(*pair.train, 0), ElementsAre(1, 2));
  EXPECT_THAT(test::message_of([&] { features(*pair.train, 1); }),
              AllOf(HasSubstr("a.bin: at byte 4: the data end here"), HasSubstr("12 bytes")));
}

TEST_F(Text, TooShortOrTooManySamples) {
  EXPECT_THAT(test::message_of([&] { open_dataset(text("abc", 3)); }),
              HasSubstr("a.txt: 3 tokens for a part; expected at least 4"));
  DatasetOptions options = text("abcdefgh", 3);
  options.validation_split = 0.2;
  EXPECT_THAT(test::message_of([&] { open_dataset(options); }), HasSubstr("2 tokens for a part"));
  EXPECT_THAT(test::message_of([&] { open_dataset(text("", 3)); }), HasSubstr("0 tokens"));
  EXPECT_THAT(test::message_of([] {
                make_token_dataset(make_synthetic_tokens(int64_t{1} << 40, 10, 1),
                                   {0, int64_t{1} << 40, 8, 1}, {}, "long");
              }),
              AllOf(HasSubstr("dataset.stride = 1"), HasSubstr("larger stride")));
}

TEST_F(Text, OptionsThatDoNotBelongTogether) {
  const auto refused = [](const DatasetOptions& options) {
    try {
      open_dataset(options);
    } catch (const ConfigurationError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  DatasetOptions options = text("abc", 1);
  options.shape = {1, 2, 3};
  EXPECT_THAT(refused(options), HasSubstr("model.input is 1x2x3; expected [length]"));
  options = text("abc", 1);
  options.classes = 2;
  EXPECT_THAT(refused(options), HasSubstr("dataset.classes is 2, but the text has 3"));
  options = text("abc", 1);
  options.standardize = true;
  EXPECT_THAT(refused(options), HasSubstr("standardize"));
  options = text("abc", 1);
  options.resize = {1, 2};
  EXPECT_THAT(refused(options), HasSubstr("resize"));
}

TEST(SyntheticTokens, EveryOtherTokenFollowsFromTheOneBefore) {
  DatasetOptions options;
  options.name = "synthetic";
  options.next_token = true;
  options.shape = {8};
  options.samples = 20;
  options.classes = 11;
  options.validation_split = 0.25;
  const DatasetPair pair = open_dataset(options);
  EXPECT_EQ(pair.train->size(), 15);
  EXPECT_EQ(pair.validation->size(), 5);
  for (int64_t i = 0; i < pair.train->size(); ++i) {
    const std::vector<float> x = features(*pair.train, i);
    const std::vector<int32_t> y = labels(*pair.train, i);
    for (std::size_t t = 0; t < x.size(); t += 2) {
      EXPECT_EQ(y[t], (static_cast<int32_t>(x[t]) + 1) % 11);
      EXPECT_LT(x[t], 11);
    }
  }
  options.classes = 0;
  EXPECT_THROW(open_dataset(options), ConfigurationError);
}

// ---- batches

TEST_F(Text, BatchesHoldTheLabelsOfEachSample) {
  const DatasetPair pair = open_dataset(text("abcdefghijklmnop", 3));  // 5 samples
  LoaderOptions options;
  options.batch_size = 2;
  options.shuffle = false;
  options.last_batch = LastBatch::kPad;
  Loader loader(pair.train, options);
  const Batch* batch = &loader.next();
  EXPECT_THAT(batch->features, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(batch->labels, ElementsAre(1, 2, 3, 4, 5, 6));
  loader.next();
  batch = &loader.next();
  EXPECT_EQ(batch->valid, 1);
  EXPECT_THAT(batch->labels, ElementsAre(13, 14, 15, 13, 14, 15));
  options.last_batch = LastBatch::kKeep;
  options.part = [](int64_t, int) { return std::vector<int64_t>{1}; };  // the rows of rank 1
  Loader second(pair.train, options);
  EXPECT_THAT(second.next().labels, ElementsAre(4, 5, 6));
}

std::vector<int32_t> input_of(const Dataset& dataset, int64_t index, const std::string& name) {
  std::vector<int32_t> out(static_cast<std::size_t>(dataset.spec().shape[0]));
  dataset.read_input({&index, 1}, *dataset.spec().find_input(name), {nullptr, out.data()});
  return out;
}

TEST_F(Text, DocumentsEndWithTheSeparator) {
  DatasetOptions options = text("ab.c..defg", 4);
  EXPECT_TRUE(open_dataset(options).train->spec().inputs.empty());
  options.separator = ".";
  options.stride = 1;
  const auto data = open_dataset(options).train;
  EXPECT_THAT(input_of(*data, 0, "documents"), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(input_of(*data, 0, "positions"), ElementsAre(0, 1, 2, 0));
  EXPECT_THAT(input_of(*data, 3, "documents"), ElementsAre(0, 0, 1, 2)) << "c . . d";
  EXPECT_THAT(input_of(*data, 3, "positions"), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(input_of(*data, 3, "segments"), ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(data->spec().inputs[0].most, 3);
}

TEST_F(Text, TheSeparatorOfTokensIsANumber) {
  DatasetOptions options = tokens<uint16_t>({1, 2, 9, 3, 4}, 4);
  options.separator = "9";
  EXPECT_THAT(input_of(*open_dataset(options).train, 0, "documents"), ElementsAre(0, 0, 0, 1));
  options.separator = "9 9";
  try {
    open_dataset(options);
    ADD_FAILURE() << "not refused";
  } catch (const ConfigurationError& error) {
    EXPECT_THAT(error.what(), HasSubstr("dataset.separator = \"9 9\" is 2 tokens; expected one"));
  }
}

}  // namespace
}  // namespace runtime::data
