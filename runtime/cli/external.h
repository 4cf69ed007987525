// Commands that are programs of their own: `runtime NAME ...` becomes the program `runtime-NAME`,
// and `runtime plugins check ...` becomes `runtime-plugins-check`.
// Equivalent to: how git and cargo find commands that they do not have themselves.
#ifndef RUNTIME_CLI_EXTERNAL_H_
#define RUNTIME_CLI_EXTERNAL_H_

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace runtime::cli {

// One program that was found.
struct ExternalCommand {
  std::string name;               // "sweep"
  std::filesystem::path program;  // absolute
  // Whether the program lies beside this one, or in its libexec folder, and so belongs to it.
  bool own = false;
};

// Returns the programs whose names begin with "runtime-", sorted by name: those beside this
// executable, then those of <folder of the executable>/../libexec/runtime, then those of the
// absolute folders of PATH. If a name is there twice, the first one counts. Folders that cannot be
// read are passed over.
std::vector<ExternalCommand> external_commands();

// Returns the program of this name that external_commands() lists, without reading any folder.
std::optional<ExternalCommand> find_command(const std::string& name);

// Replaces this process by the program, with `arguments` (ended by a null pointer) behind its name.
// Throws ConfigurationError if the system cannot start it.
[[noreturn]] void become(const ExternalCommand& command, char** arguments);

// Returns what an own command prints for --help within some seconds. `sub` is a command of this
// command, whose help is wanted instead; "" is none.
std::string help_of(const ExternalCommand& command, const std::string& sub = "", int seconds = 10);

// Returns what the command does: the first line that the --help of an own command prints within two
// seconds. A command that was found in PATH is not started, and its path stands there instead.
std::string description_of(const ExternalCommand& command);

// Returns the text of `runtime --help` about the commands, "" if there are none.
std::string list_of(const std::vector<ExternalCommand>& commands);

}  // namespace runtime::cli

#endif  // RUNTIME_CLI_EXTERNAL_H_
