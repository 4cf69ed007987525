// Data sets that a plugin reads: the example plugin libsvm against the same numbers in a CSV file,
// and plugins that answer wrong.
#include <csignal>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "tests/runtime/cli/program.h"

namespace runtime::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kJob = R"(
[model]
input = [8]
layers = [ { type = "linear", features = 6, activation = "tanh" }, { type = "linear", features = 3 } ]
[training]
global_batch_size = 16
epochs = 2
[optimizer]
lr = 0.1
[metrics]
log_every_steps = 1
[device]
backend = "reference"
[dataset]
)";

// The same table in both formats: sparse features, and a label that depends on them.
struct Table {
  std::string csv = "a,b,c,d,e,f,g,h,y\n", svm;
};

Table make_table(int rows, unsigned seed, bool regression) {
  std::mt19937 random(seed);
  // Features of plugins are float32, so these are numbers that float32 represents.
  const auto uniform = [&] { return static_cast<double>(random() % 33) / 16 - 1; };
  Table table;
  for (int row = 0; row < rows; ++row) {
    std::ostringstream csv, svm;
    double sum = 0;
    for (int f = 0; f < 8; ++f) {
      const double value = random() % 2 == 0 ? 0 : uniform();
      sum += value;
      csv << value << ",";
      if (value != 0) svm << " " << f + 1 << ":" << value;
    }
    std::ostringstream target;
    regression ? target << sum : target << (sum < -0.3 ? 0 : sum < 0.3 ? 1 : 2);
    table.csv += csv.str() + target.str() + "\n";
    table.svm += target.str() + svm.str() + " # row " + std::to_string(row) + "\n";
  }
  return table;
}

class Readers : public ProgramTest {
 protected:
  void SetUp() override { write_tables(false); }

  void write_tables(bool regression) {
    const Table train = make_table(150, 1, regression), validation = make_table(40, 2, regression);
    folder_.write("train.csv", train.csv);
    folder_.write("train.svm", train.svm);
    folder_.write("validation.csv", validation.csv);
    folder_.write("validation.svm", validation.svm);
    const std::string more = regression ? "task = \"regression\"\n" : "";
    folder_.write("csv.toml", kJob + more +
                                  "format = \"csv\"\ntarget = \"y\"\npath = \"train.csv\"\n"
                                  "validation_path = \"validation.csv\"\n");
    folder_.write("svm.toml", kJob + more +
                                  "format = \"libsvm.text\"\npath = \"train.svm\"\n"
                                  "validation_path = \"validation.svm\"\n"
                                  "[dataset.libsvm]\nfirst_index = 1\n[plugins]\npath = [\"" +
                                  plugin("libsvm_reader") + "\"]\n");
  }
  static std::string plugin(const std::string& name) {
    return FIXTURE_FOLDER "/lib" + name + ".so";
  }

  // Trains, and returns the losses of all steps and validations.
  std::vector<double> losses(const std::string& job, const std::vector<std::string>& more = {},
                             const std::string& folder = "run") {
    std::vector<std::string> words = {"train", job + ".toml",
                                      "--set", "job.dump_folder=" + folder,
                                      "--set", "job.overwrite=true"};
    words.insert(words.end(), more.begin(), more.end());
    const test::ProcessResult r = run(words);
    EXPECT_EQ(r.exit_code, 0) << r.err;
    std::istringstream lines(test::read_text(folder_.path() / folder / "metrics.jsonl"));
    std::vector<double> result;
    for (std::string line; std::getline(lines, line);) {
      const auto json = nlohmann::json::parse(line);
      for (const char* key : {"loss", "validation_loss"})
        if (json.contains(key)) result.push_back(json[key].get<double>());
    }
    return result;
  }
  void expect_same(const std::vector<std::string>& more = {}) {
    const std::vector<double> csv = losses("csv", more);
    EXPECT_GT(csv.size(), 8u);
    EXPECT_EQ(losses("svm", more), csv) << (more.empty() ? "" : more[1]);
  }
  void expect_refused(const std::vector<std::string>& words, int code,
                      const testing::Matcher<std::string>& text) {
    const test::ProcessResult r = run(words);
    EXPECT_EQ(r.exit_code, code) << r.err;
    EXPECT_THAT(r.err, text);
  }
  // A run with the format of the plugin of wrong answers.
  std::vector<std::string> faulty(const std::string& format,
                                  const std::vector<std::string>& more = {}) {
    folder_.write("data.txt", "");
    folder_.write("faulty.toml",
                  "[model]\ninput = [2]\nlayers = [ { type = \"linear\", features = 3 } ]\n"
                  "[training]\nglobal_batch_size = 4\nepochs = 1\n[device]\nbackend = "
                  "\"reference\"\n[plugins]\npath = [\"" +
                      plugin("faulty_reader") + "\"]\n[dataset]\npath = \"data.txt\"\nformat = " +
                      "\"faulty." + format + "\"\n");
    std::vector<std::string> words = {"train", "faulty.toml"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

TEST_F(Readers, LossesAreThoseOfTheSameNumbersInACsvFile) {
  expect_same();
  expect_same({"--set", "dataset.standardize=true"});
  expect_same({"--set", "dataset.shuffle=false", "--set", "dataset.prefetch=0"});
  expect_same({"--set", "dataset.mean=[0.1]", "--set", "dataset.std=[0.5]"});
  expect_same({"--set", "training.class_weights=[1.0, 2.0, 0.5]"});
}

TEST_F(Readers, ValidationSplit) {
  const std::vector<std::string> split = {"--set", "dataset.validation_split=0.2", "--set",
                                          "dataset.standardize=true"};
  expect_same(split);
}

TEST_F(Readers, Regression) {
  write_tables(true);
  folder_.write("csv.toml", test::read_text(folder_.path() / "csv.toml"));
  const std::vector<std::string> more = {"--set",
                                         "model.layers=[{ type = \"linear\", features = 1 }]"};
  expect_same(more);
}

TEST_F(Readers, SeveralRanks) {
  int checked = 0;
  for (const std::string backend : {"local", "gloo"}) {  // threads, and processes
    if (!std::filesystem::exists(PLUGIN_FOLDER "/libcollectives_" + backend + ".so")) continue;
    expect_same({"--nproc", "2", "--set", "comm.backend=" + backend});
    ++checked;
  }
  if (checked == 0) GTEST_SKIP() << "there is no communicator";
}

TEST_F(Readers, AResumedRunGoesOnWithTheSameSamples) {
  const std::vector<double> whole = losses("svm", {}, "whole");
  losses("svm", {"--max-steps", "7", "--set", "checkpoint.interval_steps=5"}, "cut");
  const std::string checkpoint = (folder_.path() / "cut").string();
  EXPECT_EQ(losses("svm", {"--resume", checkpoint}, "cut"), whole);

  Table other = make_table(150, 9, false);
  folder_.write("train.svm", other.svm);
  expect_refused({"train", "svm.toml", "--set", "job.dump_folder=other", "--resume", checkpoint}, 5,
                 HasSubstr("150 samples, checksum"));
}

TEST_F(Readers, EvaluateAndPredict) {
  const std::vector<std::string> outputs[] = {{"evaluate"}, {"predict", "--format", "csv"}};
  losses("csv");
  for (std::vector<std::string> words : outputs) {
    words.insert(words.begin() + 1, {"csv.toml", "--weights", "run/weights.safetensors"});
    const std::string expected = output(words);
    EXPECT_THAT(expected, Not(HasSubstr("nan")));
    words[1] = "svm.toml";
    EXPECT_EQ(output(words), expected);
  }
}

TEST_F(Readers, PlanAndTheListOfPluginsKnowTheFormat) {
  EXPECT_THAT(output({"plan", "svm.toml"}), HasSubstr("75 parameters"));
  EXPECT_THAT(
      output({"plugins", "--path", plugin("libsvm_reader"), "info", "libsvm"}),
      AllOf(HasSubstr("interfaces   rt.reader"), HasSubstr("format       libsvm.text: lines of"),
            HasSubstr("key          dataset.libsvm.first_index = 1: index of")));
}

TEST_F(Readers, MistakesInTheConfigurationAreNamedWithTheNearestName) {
  // Another format is other data, whose path has to be given again.
  const auto with = [](const std::string& setting) {
    return std::vector<std::string>{"train", "svm.toml", "--set",
                                    setting, "--set",    "dataset.path=train.svm"};
  };
  expect_refused(with("dataset.format=libsvm.txt"), 2,
                 HasSubstr("the plugin has no such format, did you mean \"libsvm.text\"?"));
  expect_refused(with("dataset.libsvm.first_indx=0"), 2,
                 HasSubstr("dataset.libsvm.first_indx = 0: the plugin has no such key, did you "
                           "mean \"first_index\"?"));
  expect_refused(with("dataset.libsvm.first_index=2"), 5,
                 HasSubstr("first_index is \"2\"; expected 0 or 1"));
  expect_refused(with("dataset.format=nothing.text"), 3, HasSubstr("nothing"));
  expect_refused({"train", "csv.toml", "--set", "dataset.libsvm.first_index=0"}, 2,
                 HasSubstr("dataset.libsvm: is a table of options for a format of the plugin "
                           "libsvm, but the data set is \"csv\""));
  expect_refused(with("dataset.format=reference.text"), 2,
                 HasSubstr("the plugin reference reads no data sets"));
  for (const char* wrong : {"cvs", "Libsvm.text", "libsvm.", ".text", "libsvm.text.x"})
    expect_refused(with(std::string("dataset.format=") + wrong), 2,
                   AllOf(HasSubstr("unknown choice"), HasSubstr("or \"<plugin>.<name>\"")));
  expect_refused(with("dataset.target=y"), 2,
                 HasSubstr("dataset.target: is not used by libsvm.text"));
}

TEST_F(Readers, TheCheckOfAConfigurationKnowsTheFormatsOfPlugins) {
  std::filesystem::remove(folder_.path() / "train.svm");  // it opens no data
  EXPECT_THAT(output({"config", "check", "svm.toml"}), HasSubstr("svm.toml: ok"));
  expect_refused({"config", "check", "svm.toml", "--set", "dataset.libsvm.first_indx=0"}, 2,
                 HasSubstr("did you mean \"first_index\"?"));
  expect_refused({"config", "check", "svm.toml", "--set", "plugins.path=[]"}, 3,
                 HasSubstr("libsvm"));
}

TEST_F(Readers, AByteOrderMarkIsNoPartOfTheFirstLine) {
  const std::vector<double> expected = losses("svm");
  folder_.write("train.svm", "\xEF\xBB\xBF" + test::read_text(folder_.path() / "train.svm"));
  EXPECT_EQ(losses("svm"), expected);
}

TEST_F(Readers, DamagedFilesAreNamedWithTheirLine) {
  const std::string svm = test::read_text(folder_.path() / "train.svm");
  for (const char* line :
       {"x 1:1", "1 1", "1 1:x", "1 0:1", "1 9:1", "1 2:1 2:1", "1 :1", "0.5 1:1", "1 1:1e99"}) {
    folder_.write("train.svm", svm + line + "\n");
    expect_refused({"train", "svm.toml"}, 5, AllOf(HasSubstr("train.svm"), HasSubstr("expected")));
  }
  folder_.write("train.svm", svm + "1 3:1 2:1\n");
  expect_refused({"train", "svm.toml"}, 5,
                 HasSubstr("train.svm:151: index 2; expected indices in ascending order"));
  folder_.write("train.svm", "\n# nothing\n");
  expect_refused({"train", "svm.toml"}, 5, HasSubstr("no sample in the whole file"));
  folder_.write("train.svm", svm);
  folder_.write("validation.svm", "7 1:1\n");
  expect_refused({"train", "svm.toml"}, 5,
                 HasSubstr("label 7 is none of the 3 classes of the training samples"));
}

TEST_F(Readers, OneThatAnswersWrongEndsTheRunWithExitCodeFive) {
  for (const char* format :
       {"throws_in_open", "fails_in_open", "no_result", "throws_in_info", "negative_samples",
        "many_samples", "rank_zero", "negative_dim", "overflow", "dtype", "target_kind",
        "no_classes", "many_classes", "no_targets", "throws_in_read", "fails_in_read", "short_read",
        "long_read"}) {
    expect_refused(faulty(format), 5,
                   AllOf(HasSubstr(std::string("faulty.") + format), HasSubstr("data.txt"),
                         HasSubstr("; correct the data, or [dataset]")));
  }
  for (const char* format : {"other_target", "two_labels", "high_label", "negative_label"})
    expect_refused(faulty(format), 5, AllOf(HasSubstr("data.txt"), HasSubstr("expected")));
  expect_refused(faulty("other_shape", {"--set", "dataset.validation_path=data.txt"}), 5,
                 HasSubstr("the shape 3; expected 2"));
  const std::vector<std::string> tokens = {
      "--set", "dataset.task=next_token", "--set",
      "model.layers=[{ type = \"embedding\", vocabulary = 12, features = 12 }]"};
  EXPECT_EQ(run(faulty("tokens", tokens)).exit_code, 0);
  const std::vector<std::string> inputs = {"--set",
                                           "model.layers=[{ type = \"join\", by = \"concat\", "
                                           "layers = [{ type = \"input\", input = \"half\", "
                                           "shape = [1] }] }, { type = \"linear\", features = 3 }]",
                                           "--set", "training.sample_weights=half"};
  EXPECT_EQ(run(faulty("inputs", inputs)).exit_code, 0);
  expect_refused(faulty("high_number", inputs), 5,
                 HasSubstr("has 4 in the input kind; expected a number from -1 to 3"));
  expect_refused(faulty("good", inputs), 2, HasSubstr("\"half\""));
  expect_refused(faulty("high_token", tokens), 5, HasSubstr("has token 12"));
}

TEST_F(Readers, OnePathMayHoldBothSplits) {
  for (const auto& [format, validates] : {std::pair{"both_splits", true}, {"good", false}}) {
    ASSERT_EQ(run(faulty(format, {"--set", "job.dump_folder=f", "--set", "job.overwrite=true"}))
                  .exit_code,
              0);
    EXPECT_EQ(test::read_text(folder_.path() / "f" / "metrics.jsonl").find("validation_loss") !=
                  std::string::npos,
              validates);
  }
}

TEST_F(Readers, OneThatTakesLongIsStoppedBySignals) {
  const std::chrono::seconds limit(30);
  {
    test::RuntimeProcess process(folder_.path(), faulty("stops_when_asked"));
    ASSERT_FALSE(process.wait_for_text("never printed", std::chrono::seconds(1)));
    process.send(SIGTERM);
    const test::ProcessResult r = process.wait(limit);
    EXPECT_EQ(r.exit_code, 128 + SIGTERM);
    EXPECT_THAT(r.err, HasSubstr("opening was stopped"));
  }
  for (const char* format : {"hangs_in_open", "hangs_in_read"}) {
    test::RuntimeProcess process(folder_.path(), faulty(format));
    ASSERT_FALSE(process.wait_for_text("never printed", std::chrono::seconds(1)));
    process.send(SIGTERM);
    ASSERT_TRUE(process.wait_for_text("SIGTERM: stopping", limit));
    process.send(SIGTERM);
    EXPECT_EQ(process.wait(limit).exit_code, 128 + SIGTERM) << format;
  }
}

}  // namespace
}  // namespace runtime::cli
