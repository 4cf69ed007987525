#include "runtime/cli/command_table.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <sstream>

#include "runtime/cli/external.h"
#include "runtime/config/schema.h"

namespace runtime::cli {

namespace {

// The keys that --set replaces, as "section.key=".
std::vector<std::string> keys_to_set() {
  std::vector<std::string> keys;
  for (const config::Section& section : config::sections()) {
    for (const config::Key& key : section.keys) keys.push_back(section.name + "." + key.name + "=");
  }
  return keys;
}

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
  const bool sets_keys = option.check_lname("set");
  result.choices = sets_keys ? keys_to_set() : choices_of(option);
  if (sets_keys) result.values = values_to_set();
  return result;
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
      if (own.own) table.push_back({own.name, description_of(own), {}, {}});
    }
    std::cout << completion_script(*shell, table) << std::flush;
  });
}

}  // namespace runtime::cli
