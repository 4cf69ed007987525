// Plugins that hang, end their process, or return impossible values, beside the plugins that a
// command needs.
#include "tests/runtime/cli/program.h"

namespace runtime::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string fixture(const std::string& name) {
  return FIXTURE_FOLDER "/libmisbehaving_" + name + ".so";
}

class BadPlugins : public ProgramTest {
 protected:
  test::ProcessResult train(const std::string& plugin, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {
        "train", job_, "--set", "plugins.path=[\"" + fixture(plugin) + "\"]", "--max-steps", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
};

TEST_F(BadPlugins, OneThatIsNotNeededIsSkippedAndNamed) {
  const auto r = train("exits");
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_THAT(r.err, AllOf(HasSubstr("skipped " + fixture("exits")),
                           HasSubstr("ended with exit code 0 while its entry ran")));
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / "outputs"));
}

TEST_F(BadPlugins, OneThatIsNeededIsAnErrorWithItsReason) {
  for (const char* key : {"plugins.require=[\"misbehaving\"]", "device.backend=misbehaving"}) {
    const auto r = train("exits", {"--set", key});
    EXPECT_EQ(r.exit_code, 3) << key;
    EXPECT_THAT(r.err, AllOf(HasSubstr(fixture("exits")), HasSubstr("exit code 0")));
  }
  const auto r = train("alignment_zero", {"--set", "device.backend=misbehaving"});
  EXPECT_EQ(r.exit_code, 3);
  EXPECT_THAT(r.err, HasSubstr("an alignment of 0 bytes, expected a power of two"));
}

// The probe opens no device, so it does not see this fault. Exit code 0 would claim that the
// training is done. (With ranks as threads the plugin would call exit() twice at once, which the C
// library does not allow.)
TEST_F(BadPlugins, OneThatEndsTheRunWithExitIsAnErrorAndNoSuccess) {
  const auto r = train("exits_in_open", {"--set", "device.backend=misbehaving"});
  EXPECT_EQ(r.exit_code, 3) << r.err;
  EXPECT_THAT(r.err, HasSubstr("has called exit() before the work was done"));
}

// In the program's process this plugin would hang at the end.
TEST_F(BadPlugins, OneThatIsNotNeededIsNotOpenedInTheProcess) {
  const auto r = train("hangs_in_shutdown");
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_THAT(r.err, Not(HasSubstr("skipped")));
}

TEST_F(BadPlugins, RanksGoOn) {
  const auto threads = train("segfaults", {"--nproc", "2"});
  EXPECT_EQ(threads.exit_code, 0) << threads.err;
  EXPECT_THAT(threads.err, HasSubstr("SIGSEGV"));
}

TEST_F(BadPlugins, ListsShowThemAndNothingOfWhatTheyPrint) {
  for (const auto& words : {std::vector<std::string>{"devices"}, {"plugins", "list"}}) {
    std::map<std::string, std::string> environment = {
        {"RUNTIME_PLUGIN_PATH", fixture("many_devices") + ":" + fixture("prints")}};
    const std::string text = output(words, environment);
    EXPECT_THAT(text, AllOf(HasSubstr("rejected: " + fixture("many_devices")),
                            HasSubstr("2147483647"), HasSubstr("misbehaving"),
                            HasSubstr("reference"), Not(HasSubstr("what was asked for"))));
  }
}

TEST_F(BadPlugins, ControlCharactersDoNotReachTheTerminal) {
  const std::map<std::string, std::string> environment = {
      {"RUNTIME_PLUGIN_PATH", fixture("escapes")}};
  for (const auto& words : {std::vector<std::string>{"devices"},
                            {"plugins", "list"},
                            {"plugins", "info", "misbehaving"}}) {
    const std::string text = output(words, environment);
    EXPECT_THAT(text, AllOf(HasSubstr("\\x1b["), Not(HasSubstr("\x1b")), Not(HasSubstr("\x07"))));
  }
}

}  // namespace
}  // namespace runtime::cli
