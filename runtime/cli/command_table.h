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

// The function returns a line for each key of a configuration that a word means which is written as
// an option, as "--epochs" for training.epochs; "" if there is none, or if the command that was
// parsed has no --set.
std::string hints_of_keys(const CLI::App& app, const std::vector<std::string>& words);

// The function adds the command `completion`, which prints the script for a shell. `app` must have
// all other commands when the command runs.
void add_completion(CLI::App& app);

}  // namespace runtime::cli

#endif  // RUNTIME_CLI_COMMAND_TABLE_H_
