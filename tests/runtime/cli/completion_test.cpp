// The scripts of `runtime completion`, run by the shells that are here.
#include <algorithm>
#include <sstream>

#include "tests/runtime/cli/shell.h"

namespace runtime::cli {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

class Completion : public ShellTest {
 protected:
  bool has(const std::string& program) {
    return shell("command -v " + program + " >/dev/null").exit_code == 0;
  }
  // What bash offers behind these words, of which the last one is not complete.
  std::vector<std::string> in_bash(const std::string& words) {
    const test::ProcessResult r =
        shell("source <(runtime completion bash)\nCOMP_WORDS=(" + words +
              ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_runtime 2>/dev/null\n"
              "[ ${#COMPREPLY[@]} = 0 ] || printf '%s\\n' \"${COMPREPLY[@]}\"");
    EXPECT_EQ(r.exit_code, 0) << r.err;
    return lines_of(r.out);
  }
};

// The names of the commands that a help lists, and of its options.
std::vector<std::string> names_in_help(const std::string& help, const std::string& section) {
  std::vector<std::string> names;
  bool inside = false;
  for (const std::string& line : lines_of(help)) {
    if (line.starts_with(section)) {
      inside = true;
    } else if (inside && line.starts_with("  ") && line[2] != ' ') {
      names.push_back(line.substr(2, line.find_first_of(" ,", 2) - 2));
    } else if (!line.starts_with("  ")) {
      inside = false;
    }
  }
  return names;
}

TEST_F(Completion, BashOffersEveryCommandAndOptionOfTheHelp) {
  const std::vector<std::string> commands = names_in_help(output({"--help"}), "Subcommands:");
  EXPECT_GE(commands.size(), 13u);
  std::vector<std::string> all = commands;
  for (std::string& name : names_in_help(output({"--help"}), "Commands that are programs")) {
    // "plugins-check" is offered behind "plugins".
    if (!std::count(commands.begin(), commands.end(), name.substr(0, name.find('-'))))
      all.push_back(std::move(name));
  }
  EXPECT_THAT(in_bash("runtime ''"), testing::UnorderedElementsAreArray(all));
  for (const std::string& command : all) {
    const std::vector<std::string> offered = in_bash("runtime " + command + " -");
    const std::vector<std::string> options = names_in_help(output({command, "--help"}), "Options:");
    EXPECT_THAT(options, Not(IsEmpty())) << command;
    for (const std::string& option : options) EXPECT_THAT(offered, Contains(option)) << command;
  }
}

// Their options are read from their help, where a flag may be followed by others that it excludes.
TEST_F(Completion, BashOffersMoreBehindAFlagOfAProgramOfItsOwn) {
  EXPECT_THAT(in_bash("runtime bench a.toml --layers --st"), ElementsAre("--steps"));
  EXPECT_THAT(in_bash("runtime verify a.toml --isolate --st"), ElementsAre("--steps"));
}

TEST_F(Completion, BashOffersCommandsOfCommandsAndValues) {
  EXPECT_THAT(in_bash("runtime tr"), ElementsAre("train"));
  EXPECT_THAT(in_bash("runtime plugins ''"), testing::IsSupersetOf({"list", "info"}));
  EXPECT_THAT(in_bash("runtime checkpoint export x --o"), ElementsAre("--output"));
  EXPECT_THAT(in_bash("runtime train a.toml --progress ''"),
              ElementsAre("auto", "bar", "epochs", "lines", "off"));
  EXPECT_THAT(in_bash("runtime train a.toml --set training.ep"), ElementsAre("training.epochs="));
  // bash cuts words at "=".
  for (const char* words : {"--set optimizer.name = ad", "--set optimizer.name=ad"}) {
    const std::string head = std::string(words).ends_with("=ad") ? "optimizer.name=" : "";
    EXPECT_THAT(in_bash(std::string("runtime train a.toml ") + words),
                testing::IsSupersetOf({head + "adam", head + "adamw", head + "adagrad"}));
  }
  EXPECT_THAT(in_bash("runtime bench a.toml --set dataset.shuffle ="),
              ElementsAre("true", "false"));
  EXPECT_THAT(in_bash("runtime train a.toml --set training.epochs ="), IsEmpty());
  EXPECT_THAT(in_bash("runtime train a.toml --progress = b"), ElementsAre("bar"));
  EXPECT_THAT(in_bash("runtime completion ''"),
              testing::UnorderedElementsAre("bash", "zsh", "fish"));
  EXPECT_THAT(in_bash("runtime train ''"), IsEmpty()) << "bash then offers the names of files";
  EXPECT_THAT(in_bash("runtime train --weights x"), IsEmpty());
}

// Outside of a completion zsh has no compadd; functions of its names print what they are given.
TEST_F(Completion, ZshOffersCommandsOptionsAndValues) {
  if (!has("zsh")) GTEST_SKIP() << "zsh is not installed";
  const auto offered = [&](const std::string& words) {
    const test::ProcessResult r = shell(
        "runtime completion zsh >_runtime\nzsh -n _runtime && zsh -fc 'compdef() {}\n"
        "compadd() { print -l -- $@ }\n_describe() { print -l -- ${(P)@[-1]} }\n"
        "_files() { print files }\nsource ./_runtime\nwords=(" +
        words + ")\nCURRENT=$#words\nPREFIX=$words[-1]\n_runtime'");
    EXPECT_EQ(r.exit_code, 0) << r.err;
    return lines_of(r.out);
  };
  EXPECT_THAT(offered("runtime \"\""), Contains("train:Trains the model of a TOML file"));
  EXPECT_THAT(offered("runtime plugins \"\""),
              AllOf(Contains(HasSubstr("list:")), Contains(HasSubstr("info:"))));
  EXPECT_THAT(offered("runtime train -"), Contains(testing::StartsWith("--weights:")));
  EXPECT_THAT(offered("runtime train --progress \"\""),
              ElementsAre("--", "auto", "bar", "epochs", "lines", "off"));
  EXPECT_THAT(offered("runtime train --set \"\""),
              AllOf(Contains("training.epochs="), Not(Contains("optimizer.name=sgd"))));
  EXPECT_THAT(offered("runtime train --set optimizer.name="),
              AllOf(Contains("optimizer.name=sgd"), Not(Contains("optimizer.name="))));
  EXPECT_THAT(offered("runtime train \"\""), ElementsAre("files"));
}

TEST_F(Completion, FishOffersCommandsOptionsAndValues) {
  if (!has("fish")) GTEST_SKIP() << "fish is not installed";
  const auto offered = [&](const std::string& words) {
    const test::ProcessResult r = shell(
        "runtime completion fish >r.fish\nfish --no-config -c 'source r.fish; complete -C "
        "\"runtime " +
        words + "\"'");
    EXPECT_EQ(r.exit_code, 0) << r.err;
    return r.out;
  };
  EXPECT_THAT(offered("tr"), HasSubstr("train\tTrains the model of a TOML file\n"));
  EXPECT_THAT(offered("plugins i"), HasSubstr("info\t"));
  EXPECT_THAT(offered("train a.toml --progress e"),
              HasSubstr("epochs\tWhat is printed (metrics.progress)\n"));
  EXPECT_THAT(offered("train a.toml --set training.ep"), HasSubstr("training.epochs="));
  EXPECT_THAT(offered("train a.toml --set optimizer.name=s"), HasSubstr("optimizer.name=sgd"));
  EXPECT_THAT(offered("train a.toml --set optimizer.na"), Not(HasSubstr("optimizer.name=sgd")));
  EXPECT_THAT(offered("train --we"), AllOf(HasSubstr("--weights\t"), Not(HasSubstr("--prompt"))));
}

TEST_F(Completion, AnotherShellIsAnError) {
  const test::ProcessResult r = run({"completion", "csh"});
  EXPECT_EQ(r.exit_code, 2);
  EXPECT_THAT(r.err, HasSubstr("bash"));
}

// Commands of commands too.
TEST_F(Completion, EveryHelpHasAnExample) {
  for (const std::string& command : names_in_help(output({"--help"}), "Subcommands:")) {
    const std::string help = output({command, "--help"});
    EXPECT_THAT(help, AllOf(HasSubstr("Example"), HasSubstr("runtime " + command))) << command;
    for (const std::string& sub : names_in_help(help, "Subcommands:"))
      EXPECT_THAT(output({command, sub, "--help"}),
                  AllOf(HasSubstr("Example"), HasSubstr("runtime " + command + " " + sub)))
          << command << " " << sub;
  }
}

}  // namespace
}  // namespace runtime::cli
