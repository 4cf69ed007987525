// The commands and options of programs of their own, as their help lists them.
#ifndef RUNTIME_CLI_EXTERNAL_HELP_H_
#define RUNTIME_CLI_EXTERNAL_HELP_H_

#include <string>
#include <vector>

#include "runtime/cli/completion.h"
#include "runtime/cli/external.h"

namespace runtime::cli {

// Returns what a help in the form of CLI11 lists for the command `path`: the command with its
// options first, then its own commands, without their options.
std::vector<CompletedCommand> commands_in(const std::string& help, const std::string& path);

// Returns an own command and its commands with the options of all, by asking the program for its
// help. A program that prints none is a command without options.
std::vector<CompletedCommand> commands_of(const ExternalCommand& command, const std::string& path);

}  // namespace runtime::cli

#endif  // RUNTIME_CLI_EXTERNAL_HELP_H_
