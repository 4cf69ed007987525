// Runs predict on language models, classifications and regressions.
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/data/safetensors.h"
#include "tests/runtime/cli/program.h"

namespace runtime::cli {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// A language model that memorises "abcabc..." and "ab ", one token from the last one.
const std::string kLanguageJob = R"(
[model]
input = [4]
layers = [ { type = "embedding", vocabulary = 8, features = 8 } ]
[dataset]
format = "text"
path = "text.txt"
validation_split = 0.2
[training]
global_batch_size = 8
epochs = 20
[optimizer]
lr = 5.0
[device]
backend = "reference"
)";

class Predict : public ProgramTest {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 40; ++i) text += "the cat ";  // h after t, t after a, t or c after " "
    folder_.write("text.txt", text);
    folder_.write("language.toml", kLanguageJob);
  }
  std::vector<std::string> written(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"predict", "language.toml", "--weights",
                                          "run/weights.safetensors"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  std::string refused(const std::vector<std::string>& arguments, int code) {
    const test::ProcessResult r = run(arguments);
    EXPECT_EQ(r.exit_code, code) << r.err;
    return r.err;
  }
};

// The losses of a run, one line for each step.
std::string losses_of_steps(const std::string& metrics) {
  std::string all;
  for (const std::string& line : lines_of(metrics)) {
    const json step = json::parse(line);
    if (step.contains("loss")) all += step["loss"].dump() + "\n";
  }
  return all;
}

TEST_F(Predict, ModelsTrainOnTokenFilesAsOnTheirText) {
  folder_.write("bytes.toml", std::string(kLanguageJob)
                                  .replace(kLanguageJob.find("vocabulary = 8"), 28,
                                           "vocabulary = 256, features = 256"));
  const std::string told =
      output({"tokenize", "bytes.toml", "--set", "dataset.tokenizer=byte", "--output", "tokens"});
  EXPECT_THAT(told, AllOf(HasSubstr("tokens: 320 tokens for training, of 256 kinds, as uint16"),
                          HasSubstr("next: runtime train tokens/config.toml")));
  const auto train = [&](const std::string& config, const std::string& folder) {
    const test::ProcessResult r =
        run({"train", config, "--set", "job.dump_folder=" + folder, "--set",
             "metrics.log_every_steps=1", "--set", "dataset.tokenizer=byte"});
    EXPECT_EQ(r.exit_code, 0) << r.err;
    return losses_of_steps(test::read_text(folder_.path() / folder / "metrics.jsonl"));
  };
  const std::string of_text = train("bytes.toml", "a");
  EXPECT_NE(of_text, "");
  EXPECT_EQ(train("tokens/config.toml", "b"), of_text);
  EXPECT_THAT(
      refused({"tokenize", "bytes.toml", "--set", "dataset.tokenizer=byte", "--output", "tokens"},
              5),
      HasSubstr("is there already"));
  EXPECT_THAT(refused({"tokenize", "bytes.toml", "--output", "others"}, 2),
              HasSubstr("expected byte, gpt2 or hf"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "others"));
}

TEST_F(Predict, LanguageModelsWriteText) {
  const test::ProcessResult trained =
      run({"train", "language.toml", "--set", "job.dump_folder=run"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_THAT(trained.err, AllOf(HasSubstr("text.txt, 256 tokens of 6 kinds, 63 samples of 4"),
                                 HasSubstr("next: runtime predict")));
  // The weights file holds the characters, so the text is not needed any more.
  std::filesystem::remove(folder_.path() / "text.txt");
  EXPECT_THAT(output(written({"--prompt", "cat the c", "--temperature", "0", "--tokens", "2"})),
              testing::MatchesRegex("cat the c(at|a )\n"));
  const std::string drawn = output(written({"--prompt", "th", "--tokens", "60", "--seed", "7"}));
  EXPECT_EQ(drawn.size(), 63u);
  EXPECT_THAT(drawn, AllOf(StartsWith("the"), HasSubstr("ca")));
  EXPECT_EQ(output(written({"--prompt", "th", "--tokens", "60", "--seed", "7"})), drawn);
  EXPECT_NE(output(written({"--prompt", "th", "--tokens", "60", "--seed", "8"})), drawn);
  EXPECT_THAT(refused(written({"--prompt", "the dog"}), 2),
              AllOf(HasSubstr("--prompt: at byte 4: the character 'd' is none of the 6")));
  EXPECT_THAT(refused(written({"--prompt", ""}), 2), HasSubstr("no token"));
  EXPECT_THAT(refused(written({"--format", "csv"}), 2),
              HasSubstr("--format is not for language models"));
}

TEST_F(Predict, TextsEndWhereTheyAreToldTo) {
  output({"train", "language.toml", "--set", "job.dump_folder=run"});
  const std::vector<std::string> most_likely = {"--prompt", "th", "--temperature", "0"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), most_likely.begin(), most_likely.end());
    return output(written(more));
  };
  EXPECT_EQ(with({"--tokens", "1"}), "the\n");
  EXPECT_EQ(with({"--stop", "x", "--stop", "e "}), "the \n") << "behind the text that stops it";
  EXPECT_EQ(with({"--set", "dataset.separator=e"}), "th\n") << "before the end of a document";
  EXPECT_EQ(with({"--tokens", "1", "--top-p", "0.5"}), "the\n");
  EXPECT_THAT(refused(written({"--prompt", "th", "--chat"}), 2),
              AllOf(HasSubstr("--chat: the tokenizer has none of the special tokens"),
                    HasSubstr("ChatML (<|im_start|>)")));
  EXPECT_THAT(refused(written({"--prompt", "th", "--system", "a"}), 2), HasSubstr("add --chat"));
}

TEST_F(Predict, MasksAreFilledIn) {
  const std::vector<std::string> set = {
      "--set",
      "dataset.task=masked_token",
      "--set",
      "dataset.mask_token=_",
      "--set",
      "dataset.tokenizer=byte",
      "--set",
      "dataset.mask_share=0.3",
      "--set",
      "model.input=[8]",
      "--set",
      "model.layers=[{ type = \"embedding\", vocabulary = 256, features = 16 }, { type = "
      "\"position_embedding\" }, { type = \"residual\", layers = [{ type = \"linear\", features = "
      "48 }, "
      "{ type = \"attention\", heads = 2, documents = \"documents\" }, { type = \"linear\", "
      "features = "
      "16 }] }, { type = \"linear\", features = 256 }]"};
  const auto with = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), set.begin(), set.end());
    return arguments;
  };
  output(with({"train", "language.toml", "--set", "job.dump_folder=run", "--set",
               "optimizer.name=adam", "--set", "optimizer.lr=0.02", "--set", "dataset.stride=1",
               "--set", "training.epochs=6"}));
  const std::vector<std::string> lines = lines_of(output(with(written({"--prompt", "the _at"}))));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], "the cat");
  EXPECT_THAT(lines[1], StartsWith("_: \"c\" 0."));
  EXPECT_THAT(refused(with(written({"--prompt", "the cat"})), 2), HasSubstr("--prompt has no _"));
  EXPECT_THAT(refused(with(written({"--prompt", "the cat and _"})), 2),
              HasSubstr("--prompt has 13 tokens"));
}

TEST_F(Predict, CharactersComeFromTheTextWhereTheWeightsHaveNone) {
  output({"train", "language.toml", "--set", "job.dump_folder=run", "--max-steps", "1"});
  const std::string file = (folder_.path() / "run/weights.safetensors").string();
  data::TensorFile weights = data::read_safetensors(file);
  EXPECT_EQ(weights.metadata.at("characters"), " aceht");
  weights.metadata.clear();
  data::write_safetensors(file, weights);
  EXPECT_THAT(output(written({"--prompt", "t", "--tokens", "3"})), StartsWith("t"));
  std::filesystem::remove(folder_.path() / "text.txt");
  EXPECT_THAT(refused(written({"--prompt", "t"}), 5), HasSubstr("text.txt"));
}

TEST_F(Predict, TokenFilesAreWrittenAsNumbersOrText) {
  std::string ids;
  for (int i = 0; i < 64; ++i) ids += std::string{static_cast<char>(97 + i % 3), '\0'};
  folder_.write("ids.bin", ids);
  const std::vector<std::string> set = {
      "--set", "dataset.format=tokens",
      "--set", "dataset.path=ids.bin",
      "--set", "model.layers=[{ type = \"embedding\", vocabulary = 256, features = 256 }]"};
  const auto with = [&](std::vector<std::string> arguments, const std::vector<std::string>& more) {
    arguments.insert(arguments.end(), set.begin(), set.end());
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  output(with({"train", "language.toml"}, {"--set", "job.dump_folder=run", "--set",
                                           "training.epochs=40", "--set", "optimizer.lr=50"}));
  EXPECT_EQ(output(with(written({"--prompt", "97 98", "--temperature", "0", "--tokens", "3"}), {})),
            "97 98 99 97 98 \n");
  EXPECT_EQ(output(with(written({"--prompt", "ab", "--temperature", "0", "--tokens", "3"}),
                        {"--set", "dataset.tokenizer=byte"})),
            "abcab\n");
}

// A vocabulary of words, whose text depends on the token before it.
TEST_F(Predict, TextOfATokenizerOfHuggingFace) {
  folder_.write("tokenizer.json",
                R"({"pre_tokenizer": {"type": "WhitespaceSplit"},
                    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
                    "model": {"type": "WordPiece", "unk_token": "[UNK]", "max_input_chars_per_word": 9,
                              "continuing_subword_prefix": "##",
                              "vocab": {"the": 0, "c": 1, "##at": 2, "[UNK]": 3, "unused": 4}}})");
  const std::vector<std::string> set = {"--set", "dataset.tokenizer=hf", "--set",
                                        "dataset.tokenizer_path=tokenizer.json"};
  const auto with = [&](std::vector<std::string> arguments, const std::vector<std::string>& more) {
    arguments.insert(arguments.end(), set.begin(), set.end());
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  output(with({"train", "language.toml"}, {"--set", "job.dump_folder=run"}));
  const auto predict = written({"--prompt", "the", "--temperature", "0", "--tokens", "5"});
  EXPECT_EQ(output(with(predict, {})), "the cat the cat\n");
  std::ofstream(folder_.path() / "tokenizer.json", std::ios::app) << " ";
  EXPECT_THAT(refused(with(predict, {}), 5),
              HasSubstr("the weights were trained with the tokenizer \"hf "));
  const std::string small = "model.layers=[{ type = \"embedding\", vocabulary = 4, features = 4 }]";
  EXPECT_THAT(refused(with({"train", "language.toml"}, {"--set", small}), 2),
              AllOf(HasSubstr("4"), HasSubstr("5")));
}

TEST_F(Predict, ClassesAndProbabilities) {
  output({"train", job_, "--set", "job.dump_folder=run"});
  const json e = json::parse(output({"evaluate", job_, "--weights", "run/weights.safetensors"}));
  const auto lines = lines_of(output({"predict", job_, "--weights", "run/weights.safetensors"}));
  ASSERT_EQ(lines.size(), 12u);
  EXPECT_EQ(lines_of(output({"predict", "run/config.toml"})), lines) << "the weights beside it";
  EXPECT_THAT(refused({"predict", job_}, 2), HasSubstr("--weights is not given, and "));
  int correct = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    const json j = json::parse(lines[i]);
    EXPECT_EQ(j["index"], i);
    EXPECT_GE(j["probability"], 1.0 / 3);
    EXPECT_LE(j["probability"], 1);
    correct += j["label"] == j["predicted"] ? 1 : 0;
  }
  EXPECT_DOUBLE_EQ(correct / 12.0, e["accuracy"]);
  const auto csv = lines_of(output({"predict", job_, "--weights", "run/weights.safetensors",
                                    "--part", "train", "--format", "csv", "--samples", "10"}));
  ASSERT_EQ(csv.size(), 11u);
  EXPECT_EQ(csv[0], "index,label,predicted,probability");
  EXPECT_THAT(csv[10], testing::MatchesRegex("9,[0-2],[0-2],0\\.[0-9]+"));
  EXPECT_THAT(
      refused({"predict", job_, "--weights", "run/weights.safetensors", "--prompt", "a"}, 2),
      HasSubstr("--prompt is for language models"));
  EXPECT_THAT(refused({"predict", job_, "--weights", "run/weights.safetensors", "--set",
                       "dataset.validation_split=0"},
                      2),
              HasSubstr("--part train"));
  EXPECT_THAT(refused({"predict", job_, "--weights", "none.safetensors"}, 5),
              HasSubstr("none.safetensors"));
}

// The file need not have the columns that only training reads.
TEST_F(Predict, NeedsNoSecondLabelAndNoWeight) {
  std::string table = "a,b,kind,weight,y\n", features = "a,b\n";
  for (int i = 0; i < 12; ++i) {
    const std::string both = std::to_string(i * 7 % 5) + "," + std::to_string(i * 3 % 4);
    table += both + "," + std::to_string(i % 3) + ",2," + std::to_string(i % 2) + "\n";
    features += both + "\n";
  }
  folder_.write("table.csv", table);
  folder_.write("new.csv", features);
  folder_.write("heads.toml", R"(
[model]
input = [2]
layers = [
  { type = "linear", features = 4, activation = "tanh" },
  { type = "auxiliary_head", target = "kind", layers = [ { type = "linear", features = 3 } ] },
  { type = "linear", features = 2 },
]
[dataset]
format = "csv"
path = "table.csv"
target = "y"
features = ["a", "b"]
input = [
  { name = "kind", columns = ["kind"], type = "int32" },
  { name = "weight", columns = ["weight"] },
]
[training]
global_batch_size = 4
epochs = 2
sample_weights = "weight"
[optimizer]
name = "adam"
average_decay = 0.9
[device]
backend = "reference"
)");
  output({"train", "heads.toml", "--set", "job.dump_folder=run"});
  const auto given = lines_of(output({"predict", "run/config.toml", "--part", "train"}));
  const auto bare = lines_of(output({"predict", "run/config.toml", "--data", "new.csv"}));
  ASSERT_EQ(given.size(), 12u);
  ASSERT_EQ(bare.size(), 12u);
  for (size_t i = 0; i < bare.size(); ++i) {
    const json a = json::parse(given[i]), b = json::parse(bare[i]);
    EXPECT_EQ(a["predicted"], b["predicted"]);
    EXPECT_EQ(a["probability"], b["probability"]);
    EXPECT_FALSE(b.contains("label"));
  }
  const std::string other =
      "dataset.input=[{ name = \"other\", columns = [\"kind\"], type = \"int32\" }, "
      "{ name = \"weight\", columns = [\"weight\"] }]";
  EXPECT_THAT(refused({"config", "check", "heads.toml", "--set", other}, 2),
              HasSubstr("the model reads the input \"kind\""));
}

TEST_F(Predict, Numbers) {
  const std::vector<std::string> set = {"--set", "dataset.task=regression", "--set",
                                        "dataset.classes=0"};
  const auto with = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), set.begin(), set.end());
    arguments.insert(arguments.end(),
                     {"--set", "model.layers=[{ type = \"linear\", features = 1 }]"});
    return arguments;
  };
  output(with({"train", job_, "--set", "job.dump_folder=run"}));
  const auto lines =
      lines_of(output(with({"predict", job_, "--weights", "run/weights.safetensors"})));
  ASSERT_EQ(lines.size(), 12u);
  const json j = json::parse(lines[3]);
  EXPECT_EQ(j["index"], 3);
  EXPECT_EQ(j["targets"].size(), 1u);
  EXPECT_EQ(j["predicted"].size(), 1u);
  EXPECT_EQ(lines_of(output(with(
                {"predict", job_, "--weights", "run/weights.safetensors", "--format", "csv"})))[0],
            "index,target_0,predicted_0");
}

TEST_F(Predict, PlanAndBenchCountTokens) {
  EXPECT_THAT(output({"plan", "language.toml"}), HasSubstr("MFLOP a sample of 4 tokens"));
  const json j = json::parse(output({"bench", "language.toml", "--steps", "3", "--json"}));
  EXPECT_DOUBLE_EQ(j["tokens_per_second"], 4 * j["samples_per_second"].get<double>());
  EXPECT_THAT(output({"bench", "language.toml", "--steps", "3"}), HasSubstr("tokens/s"));
}

TEST_F(Predict, TokensOutsideTheVocabularyEndTraining) {
  folder_.write("ids.bin", std::string("\x01\0\x02\0\x09\0\x01\0\x01\0\x01\0", 12));
  const std::string error = refused(
      {"train", "language.toml", "--set", "dataset.format=tokens", "--set", "dataset.path=ids.bin",
       "--set", "dataset.classes=8", "--set", "dataset.validation_split=0"},
      5);
  EXPECT_THAT(error, HasSubstr("ids.bin: at byte 4: token 9; expected 0..7"));
}

}  // namespace
}  // namespace runtime::cli
