// What the commands that read a configuration have in common: its arguments, and what the program
// offers to plugins.
#ifndef RUNTIME_CLI_ARGUMENTS_H_
#define RUNTIME_CLI_ARGUMENTS_H_

#include <functional>
#include <string>
#include <vector>

#include "plugins/host/plugin.h"
#include "runtime/config/config.h"

namespace CLI {
class App;
}

namespace runtime::cli {

// A command returns its exit code in this, and is given the command line without the program's
// name.
struct Outcome {
  int exit_code = 0;
  std::vector<std::string> arguments;
};

// CONFIG and --set, which most commands take.
struct ConfigArguments {
  std::string path;
  std::vector<std::string> overrides;
  int ranks = 0;                               // --nproc; 0: not given
  int max_restarts = -1;                       // --max-restarts; -1: not given
  std::vector<config::Override> options = {};  // of other options; they count after `overrides`

  void add_to(CLI::App& app);
  void add_ranks_to(CLI::App& app);
  std::vector<config::Override> all_overrides() const;
  config::Config load() const;
  // `given`, or without it weights.safetensors beside the configuration, where runs and imported
  // models have it. Throws ConfigurationError if that file is needed and not there.
  std::string weights_or_own(const std::string& given) const;
};

// Lets a run begin with the weights of a file, as they are: what the configuration leaves out of
// the file that training started from, or appends to it, does not count.
void start_from(config::Model& model, const std::string& weights);

// Returns a sentence that names the folder of the configurations which come with the program.
std::string installed_configurations();
// Returns a sentence that follows it and names the folder of the documents.
std::string installed_documents();

// Returns <folder of the executable>/../share/runtime/configs/presets.
std::string preset_folder();

// Returns services that print the warnings and errors of plugins to the standard error output.
// `stop_requested`: whether the user has asked the process to end; null: nothing is known of it.
plugins::host::HostServices host_services(std::function<bool()> stop_requested = nullptr);

}  // namespace runtime::cli

#endif  // RUNTIME_CLI_ARGUMENTS_H_
