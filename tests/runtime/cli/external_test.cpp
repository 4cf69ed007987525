// Commands that are programs of their own.
#include "runtime/cli/external.h"

#include "tests/runtime/cli/shell.h"

namespace runtime::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

// A copy of the program in a folder of the test, so that programs can be put beside it.
class External : public ShellTest {
 protected:
  // Runs a line in which `runtime` is the copy.
  test::ProcessResult copied(const std::string& line) {
    return shell("mkdir -p bin libexec/runtime path\n[ -e bin/runtime ] || cp '" RUNTIME_PROGRAM
                 "' bin/runtime\nruntime() { bin/runtime \"$@\"; }\n"
                 "program() { printf '#!/bin/sh\\n%s\\n' \"$2\" >\"$1\"; chmod +x \"$1\"; }\n" +
                 line);
  }
};

TEST_F(External, GetsItsArgumentsAndTheExitCodeIsItsOwn) {
  const test::ProcessResult r = copied(
      "program bin/runtime-hello 'for a in \"$@\"; do echo \"<$a>\"; done; exit 7'\n"
      "runtime hello one 'two words' --help '' '$x;'");
  EXPECT_EQ(r.exit_code, 7) << r.err;
  EXPECT_EQ(r.out, "<one>\n<two words>\n<--help>\n<>\n<$x;>\n");
}

TEST_F(External, TheFirstPlaceCounts) {
  const std::string programs =
      "program bin/runtime-hello 'echo beside'\nprogram libexec/runtime/runtime-hello 'echo "
      "libexec'\nprogram path/runtime-hello 'echo path'\nexport PATH=\"$PWD/path:$PATH\"\n";
  EXPECT_EQ(copied(programs + "runtime hello").out, "beside\n");
  EXPECT_EQ(copied(programs + "rm bin/runtime-hello; runtime hello").out, "libexec\n");
  EXPECT_EQ(copied(programs + "rm bin/runtime-hello libexec/runtime/*; runtime hello").out,
            "path\n");
}

TEST_F(External, NoRelativeFolderOfPathIsSearched) {
  for (const char* path : {"path", ":", ".", ""}) {
    const test::ProcessResult r =
        copied("program path/runtime-hello 'echo path'; cp path/runtime-hello .\nPATH=\"" +
               std::string(path) + "\" runtime hello");
    EXPECT_EQ(r.exit_code, 2) << path;
    EXPECT_THAT(r.err, HasSubstr("command 'hello' is unknown")) << path;
  }
}

TEST_F(External, TheProgramsOwnCommandsCannotBeReplaced) {
  const test::ProcessResult r =
      copied("program bin/runtime-config 'echo replaced'\nruntime config check tiny.toml");
  EXPECT_EQ(r.out, "tiny.toml: ok\n") << r.err;
}

TEST_F(External, AnUnknownCommandHasTheNearestOfAllForSuggestion) {
  test::ProcessResult r = copied("program bin/runtime-hello true\nruntime helo");
  EXPECT_EQ(r.exit_code, 2);
  EXPECT_THAT(r.err, HasSubstr("error: command 'helo' is unknown, did you mean \"hello\"?"));
  r = copied("runtime trian");
  EXPECT_EQ(r.exit_code, 2);
  EXPECT_THAT(r.err, HasSubstr("command 'trian' is unknown, did you mean \"train\"?"));
  r = copied("mkdir -p x; program x/y 'echo no'; runtime ../x/y");
  EXPECT_EQ(r.exit_code, 2) << r.out;
}

TEST_F(External, HelpDescribesOwnProgramsAndDoesNotStartOthers) {
  const test::ProcessResult r = copied(
      "program bin/runtime-hello '[ \"$1\" = --help ] && printf \"\\nSays hello.\\nmore\\n\"'\n"
      "program bin/runtime-hangs 'sleep 100'\n"
      "program path/runtime-other \"touch $PWD/started\"\n"
      "echo text >bin/runtime-unstartable\n"
      "PATH=\"$PWD/path:$PATH\" runtime --help\n[ ! -e started ]");
  EXPECT_EQ(r.exit_code, 0) << "a program of PATH was started";
  EXPECT_THAT(r.out, testing::ContainsRegex("\n  hello +Says hello.\n"));
  EXPECT_THAT(r.out, testing::ContainsRegex("\n  hangs +\n"));
  EXPECT_THAT(r.out, testing::ContainsRegex("\n  other +/.*/path/runtime-other\n"));
  EXPECT_THAT(r.out, Not(HasSubstr("unstartable")))
      << "a file that nobody may execute is no command";
}

TEST_F(External, AProgramThatCannotBeStartedIsAnError) {
  const test::ProcessResult r = copied(
      "printf '#!/no/such/interpreter\\n' >bin/runtime-bad; chmod +x bin/runtime-bad\n"
      "runtime bad");
  EXPECT_EQ(r.exit_code, 2);
  EXPECT_THAT(r.err, HasSubstr("runtime-bad, the program of the command 'bad': No such file"));
}

}  // namespace
}  // namespace runtime::cli
