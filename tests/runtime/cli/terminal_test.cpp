// What the progress of `runtime train` looks like on a terminal; script (util-linux) is one.
#include <sstream>

#include "tests/runtime/cli/shell.h"

namespace runtime::cli {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class Terminal : public ShellTest {
 protected:
  void SetUp() override {
    ShellTest::SetUp();
    if (shell("command -v script >/dev/null").exit_code != 0)
      GTEST_SKIP() << "script (of util-linux) is not installed";
  }
  // Everything that a terminal of so many columns shows.
  std::string shown(const std::string& command, const std::string& variables = "TERM=xterm") {
    const test::ProcessResult r =
        shell("script -qec 'stty cols 70; env -u NO_COLOR " + variables + " " RUNTIME_PROGRAM " " +
              command + "' /dev/null </dev/null");
    EXPECT_EQ(r.exit_code, 0) << r.out << r.err;
    return r.out;
  }
};

const std::string kTrain = "train tiny.toml --set job.dump_folder=run --set job.overwrite=true ";

TEST_F(Terminal, HasABarWithColoursUnlessTheUserWantsNone) {
  const std::string bar = shown(kTrain);
  EXPECT_THAT(bar,
              AllOf(HasSubstr("\x1b[K"), HasSubstr("\x1b[32m"), HasSubstr("epoch 2/2  step 12"),
                    HasSubstr("best validation loss"), HasSubstr("next: runtime evaluate")));
  EXPECT_THAT(shown(kTrain, "TERM=xterm NO_COLOR=1"),
              AllOf(HasSubstr("\x1b[K"), Not(HasSubstr("\x1b[32m"))));
  EXPECT_THAT(shown(kTrain, "TERM=dumb"),
              AllOf(Not(HasSubstr("\x1b")), HasSubstr("epoch 2/2  step 12")));
}

TEST_F(Terminal, ShowsWhatTheOptionSays) {
  EXPECT_EQ(shown(kTrain + "--quiet"), "");
  EXPECT_THAT(
      shown(kTrain + "--progress epochs"),
      AllOf(ContainsRegex("epoch 1/2  step 6 .* samples/s  [0-9.]+ s"), Not(HasSubstr("\x1b"))));
  EXPECT_THAT(shown(kTrain + "--progress lines"), HasSubstr("{\"step\":12,"));
}

TEST_F(Terminal, EvaluatePrintsATable) {
  shown(kTrain + "--quiet");
  const std::string table =
      shown("evaluate tiny.toml --weights run/weights.safetensors --metrics f1,confusion");
  EXPECT_THAT(table, AllOf(ContainsRegex("f1 +[01]"), HasSubstr("confusion matrix: a row for"),
                           HasSubstr("      2 |")));
}

// Every line fits, and what it says is that of a pipe.
TEST_F(Terminal, HelpFitsTheTerminal) {
  const auto words = [](const std::string& text) {
    std::istringstream in(text);
    std::vector<std::string> list;
    for (std::string word; in >> word;) {
      if (word != "\\") list.push_back(word);
    }
    return list;
  };
  for (const std::string command : {"--help", "train --help", "predict --help", "plan --help",
                                    "bench --help", "config check --help"}) {
    for (const int columns : {60, 80, 120}) {
      const test::ProcessResult r =
          shell("script -qec 'stty cols " + std::to_string(columns) + "; " RUNTIME_PROGRAM " " +
                command + "' /dev/null </dev/null | tr -d '\\r'");
      std::istringstream lines(r.out);
      for (std::string line; std::getline(lines, line);)
        EXPECT_LE(line.size(), static_cast<size_t>(columns)) << command << "\n" << line;
      EXPECT_EQ(words(r.out), words(shell("runtime " + command).out)) << command;
    }
  }
}

// A pipe gets JSON lines only, and of `epochs` text without control sequences.
TEST_F(Terminal, APipeIsNone) {
  const test::ProcessResult lines = shell("runtime " + kTrain + "2>/dev/null");
  EXPECT_THAT(lines.out, AllOf(testing::StartsWith("{"), Not(HasSubstr("\x1b"))));
  const test::ProcessResult epochs = shell("runtime " + kTrain + "--progress epochs");
  EXPECT_THAT(epochs.out, AllOf(HasSubstr("epoch 2/2"), Not(HasSubstr("\x1b"))));
  const test::ProcessResult quiet = shell("runtime " + kTrain + "--quiet");
  EXPECT_EQ(quiet.out + quiet.err, "");
}

}  // namespace
}  // namespace runtime::cli
