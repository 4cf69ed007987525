// Reads commands, options and choices out of the parser, and adds the keys of the configuration.
#include "runtime/cli/command_table.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <sstream>

#include "runtime/cli/external.h"
#include "runtime/cli/external_help.h"
#include "runtime/cli/parse.h"
#include "runtime/config/schema.h"

namespace runtime::cli {

namespace {

// Returns the values of the keys that have only a few, as "optimizer.name=sgd".
std::vector<std::string> values_to_set() {
  std::vector<std::string> values;
  for (const config::Section& section : config::sections()) {
    for (const config::Key& key : section.keys) {
      std::vector<std::string> list = key.choices;
      if (key.type == config::Type::kBoolean) list = {"true", "false"};
      for (const std::string& value : list) {
        if (!value.empty()) values.push_back(section.name + "." + key.name + "=" + value);
      }
    }
  }
  return values;
}

// The parser tells choices in the type of an option only: "TEXT:{bar,epochs,lines}".
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t begin = type.find('{'), end = type.rfind('}');
  std::vector<std::string> choices;
  if (begin == std::string::npos || end == std::string::npos) return choices;
  std::istringstream list(type.substr(begin + 1, end - begin - 1));
  for (std::string choice; std::getline(list, choice, ',');) choices.push_back(choice);
  return choices;
}

CompletedOption completed(const CLI::Option& option) {
  CompletedOption result;
  for (const std::string& name : option.get_snames()) result.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) result.names.push_back("--" + name);
  result.help = option.get_description();
  result.takes_value = option.get_items_expected_max() > 0;
  result.choices = choices_of(option);
  return result;
}

bool has_name(const CompletedOption& option, const std::string& name) {
  return std::find(option.names.begin(), option.names.end(), name) != option.names.end();
}

// Adds the keys and values that --set of any command replaces.
void offer_keys(std::vector<CompletedCommand>& table) {
  for (CompletedCommand& command : table) {
    for (CompletedOption& option : command.options) {
      if (!has_name(option, "--set")) continue;
      option.choices = keys_to_set();
      option.values = values_to_set();
    }
  }
}

// The place of a program in the table: "plugins-check" is the command "plugins check".
std::string path_of(const ExternalCommand& program, const std::vector<CompletedCommand>& table) {
  std::string path = program.name;
  const size_t dash = path.find('-');
  const bool below = std::any_of(table.begin(), table.end(), [&](const CompletedCommand& command) {
    return !command.path.empty() && command.path == program.name.substr(0, dash);
  });
  if (below && dash != std::string::npos) path[dash] = ' ';
  return path;
}

void add(const CLI::App& app, const std::string& path, std::vector<CompletedCommand>& table) {
  CompletedCommand command{path, app.get_description(), {}, {}};
  for (const CLI::Option* option : app.get_options([](const CLI::Option*) { return true; })) {
    if (option->get_positional()) {
      command.arguments = choices_of(*option);
    } else {
      command.options.push_back(completed(*option));
    }
  }
  table.push_back(std::move(command));
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    add(*sub, path + (path.empty() ? "" : " ") + sub->get_name(), table);
}

}  // namespace

std::vector<CompletedCommand> command_table(const CLI::App& app) {
  std::vector<CompletedCommand> table;
  add(app, "", table);
  return table;
}

void add_completion(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "completion", "Prints a script with which a shell completes commands, options and keys");
  command->add_option("SHELL", *shell, "The shell")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->footer(
      "Examples:\n"
      "  source <(runtime completion bash)      # this shell; put it into ~/.bashrc for all\n"
      "  source <(runtime completion zsh)       # behind compinit in ~/.zshrc\n"
      "  runtime completion fish > ~/.config/fish/completions/runtime.fish");
  command->callback([&app, shell] {
    std::vector<CompletedCommand> table = command_table(app);
    for (const ExternalCommand& own : external_commands()) {
      if (!own.own) continue;
      for (CompletedCommand& command : commands_of(own, path_of(own, table)))
        table.push_back(std::move(command));
    }
    offer_keys(table);
    std::cout << completion_script(*shell, table) << std::flush;
  });
}

}  // namespace runtime::cli
