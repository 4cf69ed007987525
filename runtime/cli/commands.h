// The commands of the `runtime` program. Each file beside this one adds one command.
#ifndef RUNTIME_CLI_COMMANDS_H_
#define RUNTIME_CLI_COMMANDS_H_

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "plugins/host/registry.h"
#include "runtime/config/config.h"

namespace runtime::cli {

// What a command leaves behind for main(), and the words of the command line, without the program.
struct Outcome {
  int exit_code = 0;
  std::vector<std::string> arguments;
};

// CONFIG and --set, which most commands take.
struct ConfigArguments {
  std::string path;
  std::vector<std::string> overrides;
  int ranks = 0;          // --nproc; 0: not given
  int max_restarts = -1;  // --max-restarts; -1: not given

  void add_to(CLI::App& app);
  void add_ranks_to(CLI::App& app);
  std::vector<config::Override> all_overrides() const;
  config::Config load() const;
};

// <folder of the executable>/../share/runtime/configs/presets
std::string preset_folder();

// Messages of plugins go to the standard error output, warnings and errors only.
plugins::host::HostServices host_services();

void add_train(CLI::App& app, Outcome& outcome);
void add_evaluate(CLI::App& app, Outcome& outcome);
void add_predict(CLI::App& app, Outcome& outcome);
void add_gradients(CLI::App& app, Outcome& outcome);
void add_plan(CLI::App& app, Outcome& outcome);
void add_bench(CLI::App& app, Outcome& outcome);
void add_bench_comm(CLI::App& bench, Outcome& outcome);
void add_devices(CLI::App& app, Outcome& outcome);
void add_plugins(CLI::App& app, Outcome& outcome);
void add_config(CLI::App& app, Outcome& outcome);

}  // namespace runtime::cli

#endif  // RUNTIME_CLI_COMMANDS_H_
