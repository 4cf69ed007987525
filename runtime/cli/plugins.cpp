#include <fmt/format.h>

#include "plugins/host/device.h"
#include "plugins/host/error.h"
#include "runtime/cli/commands.h"

namespace runtime::cli {

namespace {

using plugins::host::Plugin;
using plugins::host::Registry;

struct PluginsArguments {
  std::vector<std::string> folders;
  std::string name;
};

Registry open_registry(const PluginsArguments& a) {
  return Registry(plugins::host::SearchPath::standard({a.folders.begin(), a.folders.end()}),
                  host_services());
}

std::string interfaces(const Plugin& p) {
  std::string text;
  const auto add = [&](const void* table, const char* name) {
    if (table != nullptr) text += (text.empty() ? "" : ", ") + std::string(name);
  };
  add(p.device_api(), RT_INTERFACE_DEVICE);
  add(p.kernel_api(), RT_INTERFACE_KERNEL);
  add(p.communicator_api(), RT_INTERFACE_COMMUNICATOR);
  return text;
}

void list(const PluginsArguments& arguments) {
  const Registry registry = open_registry(arguments);
  for (const auto& p : registry.plugins())
    fmt::print("{:<14} {:<10} {}\n", p->name(), p->version(), p->description());
  for (const auto& r : registry.rejections())
    fmt::print("rejected: {}: {}\n", r.path.string(), r.reason);
}

void info(const PluginsArguments& arguments) {
  const Registry registry = open_registry(arguments);
  const std::shared_ptr<Plugin> p = registry.require(arguments.name);
  fmt::print(
      "name         {}\nvendor       {}\nversion      {}\nbuild        {}\ndescription  {}\nfile   "
      "      {}\ninterfaces   {}\n",
      p->name(), p->vendor(), p->version(), p->build_id(), p->description(), p->path().string(),
      interfaces(*p));
  for (const auto& o : p->options())
    fmt::print("key          device.{}.{} = {}: {}\n", p->name(), o.key, o.default_value,
               o.description);
  for (const auto& d : plugins::host::list_devices(*p)) {
    fmt::print("device       {} {}: {}\n", d.id(), d.usable() ? "usable" : "unusable",
               d.usable() ? d.properties.name : d.properties.unusable_reason);
  }
}

}  // namespace

void add_plugins(CLI::App& app, Outcome&) {
  auto arguments = std::make_shared<PluginsArguments>();
  CLI::App* command = app.add_subcommand("plugins", "List plugins, or tell about one");
  command->require_subcommand(1);
  command->add_option("--path", arguments->folders,
                      "More folders or files to look for plugins in (absolute)");
  CLI::App* list_command = command->add_subcommand(
      "list", "Every plugin found, and every file that was rejected, with the reason");
  list_command->callback([arguments] { list(*arguments); });
  CLI::App* info_command =
      command->add_subcommand("info", "Version, interfaces, keys and devices of one plugin");
  info_command->add_option("NAME", arguments->name, "The plugin's name")->required();
  info_command->callback([arguments] { info(*arguments); });
  command->footer("Examples:\n  runtime plugins list\n  runtime plugins info cpu");
}

}  // namespace runtime::cli
