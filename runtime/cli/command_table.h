// The commands and options that the parser knows, as data.
#ifndef RUNTIME_CLI_COMMAND_TABLE_H_
#define RUNTIME_CLI_COMMAND_TABLE_H_

#include <string>
#include <vector>

#include "runtime/cli/completion.h"

namespace CLI {
class App;
}

namespace runtime::cli {

// The function returns the program itself and all commands, each before its own commands.
std::vector<CompletedCommand> command_table(const CLI::App& app);

// The function adds the command `completion`, which prints the script for a shell. `app` must have
// all other commands when the command runs.
void add_completion(CLI::App& app);

}  // namespace runtime::cli

#endif  // RUNTIME_CLI_COMMAND_TABLE_H_
