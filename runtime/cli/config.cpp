#include <iostream>

#include "runtime/cli/commands.h"

namespace runtime::cli {

void add_config(CLI::App& app, Outcome&) {
  CLI::App* command = app.add_subcommand(
      "config", "Check a configuration, show the resolved file, print the JSON schema");
  command->require_subcommand(1);

  auto check = std::make_shared<ConfigArguments>();
  CLI::App* check_command =
      command->add_subcommand("check", "Load and check; opens no plugin and no data");
  check->add_to(*check_command);
  check_command->callback([check] {
    check->load();
    std::cout << check->path << ": ok" << std::endl;
  });

  auto show = std::make_shared<ConfigArguments>();
  CLI::App* show_command = command->add_subcommand(
      "show", "The file with extends, presets, overrides and defaults resolved");
  show->add_to(*show_command);
  show_command->callback([show] { std::cout << config::to_toml(show->load()) << std::flush; });

  CLI::App* schema_command =
      command->add_subcommand("schema", "JSON schema of configuration files, for editors");
  schema_command->callback([] { std::cout << config::json_schema() << std::endl; });

  command->footer(
      "Examples:\n  runtime config check my.toml\n  runtime config show my.toml --set "
      "optimizer.lr=0.1\n"
      "  runtime config schema > runtime.schema.json");
}

}  // namespace runtime::cli
