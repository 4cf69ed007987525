// The commands plugins list and plugins info.
#include <fmt/format.h>

#include "plugins/host/nearest.h"
#include "plugins/host/printable.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/say.h"
#include "runtime/launch/communicators.h"
#include "runtime/launch/plugin_tables.h"

namespace runtime::cli {

namespace {

using plugins::host::PluginDescription;
using plugins::host::Registry;

// What follows the name and the version of a plugin in the list, or the kind of a line about one.
constexpr size_t kListIndent = 26, kIndent = 13;

template <typename... Arguments>
void print(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  terminal::print_folded(fmt::format(text, std::forward<Arguments>(arguments)...), kIndent);
}

Registry open_registry(const Folders& folders) {
  return Registry(plugins::host::SearchPath::standard({folders.begin(), folders.end()}),
                  host_services());
}

// Returns "5.0 us"; "unknown" if the plugin has left it at 0.
std::string known(int64_t said, double value, const char* unit) {
  return said == 0 ? "unknown" : fmt::format("{:.1f} {}", value, unit);
}

// Prints how ranks are started, the link that the plugin promises, and the one with which `plan`
// predicts if the plugin does not know its own.
void print_communicator(const rt_comm_properties& c) {
  constexpr const char* kRanks[] = {"processes", "threads of one process", "processes of mpiexec"};
  const std::string latency = known(c.latency_ns, c.latency_ns * 1e-3, "us");
  const std::string bandwidth = known(c.bytes_per_second, c.bytes_per_second * 8e-9, "Gbit/s");
  print("communicator {}; ranks are {}, latency {}, bandwidth {}\n", c.description, kRanks[c.ranks],
        latency, bandwidth);
  if (c.latency_ns > 0 && c.bytes_per_second > 0) return;
  const parallel::Link& assumed = parallel::kUnknownLink;
  print(
      "             plan assumes latency {:.1f} us, bandwidth {:.1f} Gbit/s; runtime bench "
      "comm measures both\n",
      assumed.latency_s * 1e6, assumed.bytes_per_second * 8e-9);
}

// Prints an operation that the plugin brings, with the keys of a configuration.
void print_operation(const std::string& plugin, const plugins::host::OperationSpec& o) {
  const bool layer = o.kind == RT_OPERATION_LAYER;
  print("{:<12} {}.{}: {}\n", layer ? "layer" : "optimizer", plugin, o.name, o.description);
  print("             {}\n", o.signature);
  for (const auto& a : o.attributes)
    print("             {} {}: {}\n", a.key,
          a.default_value.empty() ? "(required)" : "= " + a.default_value, a.description);
}

}  // namespace

void print_rejections(const Registry& registry) {
  for (const auto& r : registry.rejections())
    say("rejected: {}: {}\n", plugins::host::printable(r.path.string()), r.reason);
}

void list_plugins(const Folders& folders) {
  const Registry registry = open_registry(folders);
  for (const PluginDescription& p : registry.plugins())
    terminal::print_folded(fmt::format("{:<14} {:<10} {}\n", p.name, p.version, p.description),
                           kListIndent);
  print_rejections(registry);
}

void describe_plugin(const Folders& folders, const std::string& name) {
  const Registry registry = open_registry(folders);
  const PluginDescription& p = registry.require(name);
  print(
      "name         {}\nvendor       {}\nversion      {}\nbuild        {}\ncontract     {}.{}\n"
      "description  {}\nfile         {}\ninterfaces   {}\n",
      p.name, p.vendor, p.version, p.build_id, RT_ABI_MAJOR, p.minor, p.description,
      plugins::host::printable(p.file.named.string()), plugins::host::join_names(p.interfaces));
  for (const auto& o : p.options)
    print("key          {}.{}.{} = {}: {}\n", launch::section_of_keys(p), p.name, o.key,
          o.default_value, o.description);
  for (const auto& format : p.formats) {
    print("format       {}.{}: {}\n", p.name, format.name, format.description);
    for (const auto& o : format.options)
      print("key          dataset.{}.{} = {}: {}\n", p.name, o.key, o.default_value, o.description);
  }
  for (const plugins::host::OperationSpec& o : p.operations) print_operation(p.name, o);
  if (p.communicator) print_communicator(*p.communicator);
  for (const auto& d : p.devices) {
    print("device       {} {}: {}\n", d.id(), d.usable() ? "usable" : "unusable",
          d.usable() ? d.properties.name : d.properties.unusable_reason);
  }
}

}  // namespace runtime::cli
