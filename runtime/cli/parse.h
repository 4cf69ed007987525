// The parser of the command line, for the program `runtime` and for the commands that are programs
// of their own and compute.
#ifndef RUNTIME_CLI_PARSE_H_
#define RUNTIME_CLI_PARSE_H_

#include <string>
#include <vector>

#include "runtime/cli/arguments.h"

namespace runtime::cli {

// Parses the command line, which runs the command that `app` finds, and returns the exit code. What
// the parser refuses is printed, with a line for each key of a configuration that was written as an
// option: "--epochs" for training.epochs. Throws what the command throws, and OutputError if part
// of what it has printed was lost.
int parse_and_run(CLI::App& app, int argc, char** argv, Outcome& outcome);

// The keys that --set replaces, as "section.key=".
std::vector<std::string> keys_to_set();

}  // namespace runtime::cli

#endif  // RUNTIME_CLI_PARSE_H_
