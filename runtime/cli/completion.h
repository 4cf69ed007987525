// Scripts with which a shell completes the command line of `runtime`.
#ifndef RUNTIME_CLI_COMPLETION_H_
#define RUNTIME_CLI_COMPLETION_H_

#include <string>
#include <vector>

namespace runtime::cli {

// An option of a command.
struct CompletedOption {
  std::vector<std::string> names;  // with their dashes
  std::string help;
  bool takes_value = false;
  std::vector<std::string> choices;  // of the value; empty: file names are offered
  // A choice that ends with "=" needs a value. This list has the whole words that are known for
  // such choices, as "optimizer.name=sgd".
  std::vector<std::string> values = {};
};

// A command, or a command of a command ("plugins info"). The program itself has the path "".
struct CompletedCommand {
  std::string path, help;
  std::vector<CompletedOption> options;
  std::vector<std::string> arguments;  // choices of a positional argument; empty: file names
};

// The function returns the script for "bash", "zsh" or "fish". Throws ConfigurationError for
// another shell.
std::string completion_script(const std::string& shell,
                              const std::vector<CompletedCommand>& commands);

}  // namespace runtime::cli

#endif  // RUNTIME_CLI_COMPLETION_H_
