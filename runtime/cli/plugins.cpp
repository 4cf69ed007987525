#include <fmt/format.h>

#include "plugins/host/device.h"
#include "plugins/host/error.h"
#include "runtime/cli/commands.h"

namespace runtime::cli {

namespace {

using plugins::host::Plugin;
using plugins::host::Registry;

Registry open_registry(const Folders& folders) {
  return Registry(plugins::host::SearchPath::standard({folders.begin(), folders.end()}),
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
  add(p.capture_api(), RT_INTERFACE_CAPTURE);
  return text;
}

}  // namespace

void list_plugins(const Folders& folders) {
  const Registry registry = open_registry(folders);
  for (const auto& p : registry.plugins())
    fmt::print("{:<14} {:<10} {}\n", p->name(), p->version(), p->description());
  for (const auto& r : registry.rejections())
    fmt::print("rejected: {}: {}\n", r.path.string(), r.reason);
}

void describe_plugin(const Folders& folders, const std::string& name) {
  const Registry registry = open_registry(folders);
  const std::shared_ptr<Plugin> p = registry.require(name);
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

}  // namespace runtime::cli
