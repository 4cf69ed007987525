// Compares the kinds and priorities of communication plugins, and refuses with the choices there
// are.
#include "runtime/launch/communicators.h"

#include "plugins/host/error.h"
#include "plugins/host/nearest.h"
#include "runtime/error.h"
#include "runtime/step/ranks.h"

namespace runtime::launch {

namespace {

using plugins::host::PluginDescription;
using plugins::host::Registry;

// Returns nullptr if no plugin for such ranks has a priority. Of equal ones the first wins.
const PluginDescription* best_for(const std::vector<PluginDescription>& plugins, uint32_t ranks) {
  const PluginDescription* best = nullptr;
  for (const PluginDescription& p : plugins) {
    if (!p.communicator || p.communicator->ranks != ranks) continue;
    if (p.communicator->priority > (best == nullptr ? 0 : best->communicator->priority)) best = &p;
  }
  return best;
}

const PluginDescription* find(const Registry& registry, const std::string& name) {
  for (const PluginDescription& p : registry.plugins())
    if (p.communicator && p.name == name) return &p;
  return nullptr;
}

// `wanted` is "" if "auto" found none.
[[noreturn]] void refuse(const config::Config& config, const Registry& registry,
                         const std::string& wanted) {
  std::string reasons;
  for (const auto& rejection : registry.rejections()) {
    if (rejection.path.string().find(wanted) != std::string::npos)
      reasons += "; " + rejection.path.string() + ": " + rejection.reason;
  }
  throw plugins::host::Error(
      RT_ERROR_UNAVAILABLE,
      "comm.backend = \"" + config.comm.backend + "\": there is no communication plugin " +
          (wanted.empty() ? "that it takes for these ranks" : "'" + wanted + "' here") + reasons +
          "; set comm.backend to one of: " + other_communicators(registry, "") +
          " (runtime plugins list), or build again after tools/setup.sh --ranks, which installs "
          "what the communication plugins need");
}

}  // namespace

bool started_by_mpi(const RankEnvironment& place) {
  return place.source.find("MPI") != std::string::npos ||
         place.source.find("Hydra") != std::string::npos;
}

const PluginDescription* best_communicator(const std::vector<PluginDescription>& plugins,
                                           uint32_t ranks) {
  const PluginDescription* best = best_for(plugins, ranks);
  if (best != nullptr || ranks == RT_RANKS_THREADS) return best;
  return best_for(plugins, ranks == RT_RANKS_MPI ? RT_RANKS_ANY_PROCESS : RT_RANKS_MPI);
}

const PluginDescription& choose_communicator(const config::Config& config,
                                             const RankEnvironment& place, const Registry& registry,
                                             const std::string& of_devices) {
  const bool several = place.world_size > 1;
  const std::string named = config.comm.backend == "auto" ? of_devices : config.comm.backend;
  const uint32_t ranks = !several                ? RT_RANKS_THREADS
                         : started_by_mpi(place) ? RT_RANKS_MPI
                                                 : RT_RANKS_ANY_PROCESS;
  const PluginDescription* chosen =
      named.empty() ? best_communicator(registry.plugins(), ranks) : find(registry, named);
  if (chosen == nullptr) refuse(config, registry, named);
  if (in_one_process(*chosen) && several) {
    throw ConfigurationError("comm.backend = \"" + chosen->name +
                             "\" is for ranks that are threads of one process, but this is rank " +
                             std::to_string(place.rank) + " of " +
                             std::to_string(place.world_size) + ", started by " + place.source +
                             "; set it to one of: " + other_communicators(registry, chosen->name) +
                             ", or use --nproc");
  }
  const int among = several ? place.world_size : config.launch.ranks;
  if (const std::string fault = thread_fault(*chosen, config, among); !fault.empty()) {
    throw ConfigurationError(
        "comm.backend = \"" + chosen->name + "\": " + fault +
        "; set comm.backend to one of: " + other_communicators(registry, chosen->name));
  }
  return *chosen;
}

std::string thread_fault(const PluginDescription& plugin, const config::Config& config, int ranks) {
  const bool one_thread =
      plugin.communicator && (plugin.communicator->flags & RT_COMM_SINGLE_THREAD) != 0;
  if (!one_thread || ranks == 1) return "";
  const std::string must = "the plugin must be called by one thread at a time, ";
  if (in_one_process(plugin)) return must + "but its ranks are threads of one process";
  if (!step::is_asynchronous(config, ranks)) return "";
  return must +
         "but parallelism.update = \"asynchronous\" sends messages in a thread of its own "
         "(\"synchronous\" does not)";
}

std::string other_communicators(const Registry& registry, const std::string& name) {
  std::vector<std::string> names;
  for (const PluginDescription& p : registry.plugins())
    if (p.communicator && p.name != name) names.push_back(p.name);
  return names.empty() ? "none found" : plugins::host::join_names(names);
}

bool in_one_process(const PluginDescription& plugin) {
  return plugin.communicator && plugin.communicator->ranks == RT_RANKS_THREADS;
}

parallel::Link link_of(const rt_comm_properties& properties) {
  const int64_t latency = properties.latency_ns, bandwidth = properties.bytes_per_second;
  if (latency == 0 || bandwidth == 0) return parallel::kUnknownLink;
  return {static_cast<double>(latency) * 1e-9, static_cast<double>(bandwidth),
          (properties.flags & RT_COMM_BACKGROUND) != 0};
}

PlannedRanks planned_ranks(const Registry& registry, const std::string& backend) {
  const bool of_this_process = backend.empty() || backend == "auto";
  const PluginDescription* plugin = of_this_process
                                        ? best_communicator(registry.plugins(), RT_RANKS_THREADS)
                                        : find(registry, backend);
  if (plugin == nullptr)
    return {of_this_process ? "auto" : backend, parallel::kUnknownLink, of_this_process};
  return {plugin->name, link_of(*plugin->communicator), in_one_process(*plugin)};
}

}  // namespace runtime::launch
