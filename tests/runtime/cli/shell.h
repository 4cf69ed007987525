// Runs the `runtime` program from lines of shell script, with redirections and limits (ulimit).
#ifndef TESTS_RUNTIME_CLI_SHELL_H_
#define TESTS_RUNTIME_CLI_SHELL_H_

#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "tests/runtime/cli/program.h"

namespace runtime::cli {

class ShellTest : public ProgramTest {
 protected:
  // Runs a line of bash in the test's folder, in which the word `runtime` runs the program.
  test::ProcessResult shell(const std::string& line) {
    const std::string script =
        folder_.write("line.sh",
                      "cd \"$(dirname \"$0\")\"\nexport HOME=$PWD XDG_CACHE_HOME=$PWD/cache\n"
                      "unset RUNTIME_PLUGIN_PATH\nulimit -c 0\n"
                      "runtime() { '" RUNTIME_PROGRAM "' \"$@\"; }\n" +
                          line + "\n");
    const std::string command =
        "bash '" + script + "' >'" + script + ".out' 2>'" + script + ".err' </dev/null";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
            test::read_text(script + ".out"), test::read_text(script + ".err")};
  }
  // Runs a line under a limit. Messages go through a pipe, to which the limit does not apply.
  test::ProcessResult limited(const std::string& limit, const std::string& line) {
    return shell("( ulimit " + limit + "; " + line + " ) 2>&1 >/dev/null | cat >&2\n" +
                 "exit ${PIPESTATUS[0]}");
  }
};

}  // namespace runtime::cli

#endif  // TESTS_RUNTIME_CLI_SHELL_H_
