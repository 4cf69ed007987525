// Adds CONFIG, --set and the options of ranks to a parser, and parses the command line.
#include "runtime/cli/parse.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <iostream>
#include <system_error>

#include "plugins/host/nearest.h"
#include "runtime/cli/help_format.h"
#include "runtime/cli/number_checks.h"
#include "runtime/cli/output.h"
#include "runtime/config/schema.h"
#include "runtime/error.h"

namespace runtime::cli {

namespace {

// Returns the keys, as "section.key=", that have this name; without any, those whose names contain
// it, or else that with the nearest name. The name may have dashes, and a section before it.
std::vector<std::string> keys_like(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  std::vector<std::string> found, containing, names;
  for (const std::string& key : keys_to_set()) {
    const std::string whole = key.substr(0, key.size() - 1);
    names.push_back(whole.substr(whole.find('.') + 1));
    if (whole == name || names.back() == name) found.push_back(key);
    if (name.size() > 3 && names.back().find(name) != std::string::npos) containing.push_back(key);
  }
  if (!found.empty()) return found;
  const std::string near = plugins::host::nearest_name(name, names);
  return containing.empty() && !near.empty() ? keys_like(near) : containing;
}

// Returns a line for each key of a configuration that a word means which is written as an option;
// "" if there is none, or if the command that was parsed has no --set.
std::string hints_of_keys(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  std::string hints;
  if (command->get_option_no_throw("--set") == nullptr) return hints;
  for (const std::string& word : words) {
    const std::string name = word.substr(0, word.find('='));
    const bool unknown = name.starts_with("--") && command->get_option_no_throw(name) == nullptr;
    for (const std::string& key : unknown ? keys_like(name.substr(2)) : std::vector<std::string>())
      hints += name + " is no option of this command; --set " + key + "VALUE sets that key\n";
  }
  return hints;
}

// Lets the help of a command and of its commands fit the terminal.
void fit_help(CLI::App& app) {
  if (const auto format = help_format()) app.formatter(format);
  for (CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) fit_help(*sub);
}

}  // namespace

std::vector<std::string> keys_to_set() {
  std::vector<std::string> keys;
  for (const config::Section& section : config::sections()) {
    for (const config::Key& key : section.keys) keys.push_back(section.name + "." + key.name + "=");
  }
  return keys;
}

void ConfigArguments::add_to(CLI::App& app) {
  app.add_option("CONFIG", path,
                 "The TOML file; `runtime --help` says where every key is described")
      ->required();
  app.add_option("--set", overrides, "section.key=value, overrides the file; may be repeated")
      ->allow_extra_args(false);
}

void ConfigArguments::add_ranks_to(CLI::App& app) {
  app.add_option("--nproc", ranks,
                 "Ranks on this machine (launch.ranks): threads with comm.backend=local, the "
                 "default, else processes")
      ->check(positive(ranks));
  app.add_option("--max-restarts", max_restarts,
                 "How often all ranks are started again after one was lost (launch.max_restarts)")
      ->check(non_negative(max_restarts));
}

int parse_and_run(CLI::App& app, int argc, char** argv, Outcome& outcome) {
  // A file that grows beyond `ulimit -f` is then an error of write(), which has a message, and does
  // not end the process.
  std::signal(SIGXFSZ, SIG_IGN);
  fit_help(app);
  outcome.arguments.assign(argv + 1, argv + argc);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    if (code == static_cast<int>(CLI::ExitCodes::ExtrasError))
      std::cerr << hints_of_keys(app, outcome.arguments);
    if (code != 0) return static_cast<int>(ExitCode::kConfiguration);
  } catch (const std::system_error&) {
    if (!output_failed()) throw;  // otherwise fmt::print has thrown it
  }
  if (outcome.exit_code == 0) finish_output();
  return outcome.exit_code;
}

}  // namespace runtime::cli
