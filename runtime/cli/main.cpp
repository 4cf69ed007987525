// runtime: trains deep-learning models on the hardware that plugins provide.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <new>

#include "plugins/host/error.h"
#include "plugins/host/nearest.h"
#include "runtime/cli/commands.h"
#include "runtime/error.h"

namespace {

constexpr const char* kExamples = R"(Examples:
  runtime train configs/fashion_mnist_lenet.toml
  runtime train configs/fashion_mnist_lenet.toml --set device.backend=reference --max-steps 20
  runtime evaluate configs/fashion_mnist_lenet.toml --weights outputs/.../weights.safetensors
  runtime devices

Exit codes: 0 done, 2 configuration, 3 plugin or device, 4 communication, 5 data or checkpoint, 6 numeric (NaN),
130 or 143 stopped by a signal after saving.)";

int report(const char* what, int code) {
  std::fflush(stdout);
  std::fprintf(stderr, "error: %s\n", what);
  return code;
}

// CLI11 would only say that a command is missing.
void check_command(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  if (word.starts_with('-') || std::find(names.begin(), names.end(), word) != names.end()) return;
  const std::string near = plugins::host::nearest_name(word, names);
  throw runtime::ConfigurationError(
      "command '" + word + "' is unknown" + (near.empty() ? "" : ", did you mean '" + near + "'?") +
      "; commands: " + plugins::host::join_names(names) + " (runtime --help)");
}

int run(int argc, char** argv) {
  CLI::App app{"Trains deep-learning models on the hardware that plugins provide."};
  app.name("runtime");
  app.footer(kExamples);
  app.require_subcommand(1);
  app.set_version_flag("--version", RUNTIME_VERSION);
  runtime::cli::Outcome outcome;
  outcome.arguments.assign(argv + 1, argv + argc);
  runtime::cli::add_train(app, outcome);
  runtime::cli::add_evaluate(app, outcome);
  runtime::cli::add_predict(app, outcome);
  runtime::cli::add_gradients(app, outcome);
  runtime::cli::add_plan(app, outcome);
  runtime::cli::add_bench(app, outcome);
  runtime::cli::add_devices(app, outcome);
  runtime::cli::add_plugins(app, outcome);
  runtime::cli::add_config(app, outcome);
  if (argc > 1) check_command(app, argv[1]);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    return code == 0 ? 0 : static_cast<int>(runtime::ExitCode::kConfiguration);
  }
  return outcome.exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const runtime::Error& e) {
    return report(e.what(), static_cast<int>(e.exit_code()));
  } catch (const plugins::host::Error& e) {
    const bool communication = e.code() == RT_ERROR_COMMUNICATION || e.code() == RT_ERROR_TIMEOUT;
    return report(e.what(), static_cast<int>(communication ? runtime::ExitCode::kCommunication
                                                           : runtime::ExitCode::kPlugin));
  } catch (const std::bad_alloc&) {
    return report("out of host memory; use a smaller training.global_batch_size or data set",
                  static_cast<int>(runtime::ExitCode::kPlugin));
  } catch (const std::exception& e) {
    return report(e.what(), 1);
  }
}
