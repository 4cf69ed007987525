// The program `runtime-sweep`, which `runtime sweep` becomes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <sstream>

#include "runtime/error.h"
#include "tools/sweep/results.h"
#include "tools/sweep/run_sweep.h"
#include "tools/sweep/rungs.h"
#include "tools/trials/pool.h"
#include "tools/trials/program.h"

namespace tools::sweep {
namespace {

struct Arguments {
  std::string path, folder;
  bool resume = false, dry_run = false;
};

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void list_devices(Sweep& sweep) {
  for (Parameter& parameter : sweep.parameters) {
    if (parameter.kind == Parameter::Kind::kDevices)
      parameter.values = usable_backends(trials::output_of({"devices"}));
  }
}

void dry_run(const std::vector<Trial>& trials) {
  for (size_t number = 0; number < trials.size(); ++number) {
    std::string line = fmt::format("trial {}:", number);
    for (const auto& [key, value] : trials[number].settings)
      line += fmt::format(" {}={}", key, trials::short_text(value));
    fmt::print("{}\n", line);
  }
}

int run(const Arguments& arguments) {
  Sweep sweep = read_sweep(arguments.path);
  if (!arguments.folder.empty()) sweep.folder = arguments.folder;
  list_devices(sweep);
  std::vector<Trial> trials = make_trials(sweep);
  check_trials(sweep, trials, arguments.path);
  if (arguments.dry_run) return dry_run(trials), 0;
  SweepFolder folder(sweep.folder, text_of(arguments.path), arguments.resume, trials);
  const int signal = run_trials(sweep, trials, folder);
  if (signal != 0) {
    fmt::print(stderr, "stopped by a signal; go on with: runtime sweep {} --resume{}\n",
               arguments.path, arguments.folder.empty() ? "" : " --folder " + arguments.folder);
    return 128 + signal;
  }
  const std::vector<Record> list = ranking(folder.records(), sweep.maximize);
  show_results(sweep, sweep.folder, list);
  if (list[0].done()) return 0;
  throw runtime::ConfigurationError(
      "every trial has failed, see above; mend the configuration or the sweep's file, and run the "
      "trials again with --resume");
}

int main_of(int argc, char** argv) {
  CLI::App app{
      "Trains a configuration with many settings: grid, random search, successive halving."};
  app.name("runtime sweep");
  Arguments arguments;
  int exit_code = 0;
  app.add_option("SWEEP", arguments.path, "The TOML file of the sweep; tools/sweep/README.md")
      ->required();
  app.add_flag("--resume", arguments.resume,
               "Goes on with the sweep in the folder; begins if there is none");
  app.add_option("--folder", arguments.folder,
                 "The folder of the sweep's files, instead of the file's key");
  app.add_flag("--dry-run", arguments.dry_run, "Checks and lists the trials, and runs none");
  app.footer(
      "The folder gets sweep.jsonl (one line a trial), results.json, results.svg and the folder of "
      "each run.\n"
      "Examples:\n"
      "  runtime sweep configs/sweeps/learning_rate_and_ranks.toml\n"
      "  runtime sweep configs/sweeps/learning_rate_and_ranks.toml --resume\n"
      "  runtime sweep configs/sweeps/halving.toml --dry-run");
  app.callback([&] { exit_code = run(arguments); });
  return trials::run_program(app, argc, argv, exit_code);
}

}  // namespace
}  // namespace tools::sweep

int main(int argc, char** argv) { return tools::sweep::main_of(argc, argv); }
