// Chooses the communication plugin of a job, by what the plugins say of themselves.
#ifndef RUNTIME_LAUNCH_COMMUNICATORS_H_
#define RUNTIME_LAUNCH_COMMUNICATORS_H_

#include <string>
#include <vector>

#include "plugins/host/registry.h"
#include "runtime/config/config.h"
#include "runtime/launch/environment.h"
#include "runtime/parallel/efficiency.h"

namespace runtime::launch {

// Whether a launcher of MPI has started this process as a rank.
bool started_by_mpi(const RankEnvironment& place);

// Returns the plugin that comm.backend = "auto" takes for host memory and for `ranks` (RT_RANKS_*),
// nullptr if there is none. If there is none for ranks of MPI, it is one for any processes, and the
// other way round. Of several it is the one with the highest priority, and the first one of those
// with the same; never one whose priority is 0.
const plugins::host::PluginDescription* best_communicator(
    const std::vector<plugins::host::PluginDescription>& plugins, uint32_t ranks);

// Returns the communication plugin that comm.backend stands for. "auto" is `of_devices` (see
// device_offers.h) if that is not empty, else best_communicator() for ranks that are threads if
// this process is to start them, and otherwise for those of the launcher that has started this
// rank. Throws Error (RT_ERROR_UNAVAILABLE) that lists the communication plugins that were found,
// and ConfigurationError for a plugin whose ranks are threads if this process is one rank of
// several, or that has a thread_fault().
const plugins::host::PluginDescription& choose_communicator(const config::Config& config,
                                                            const RankEnvironment& place,
                                                            const plugins::host::Registry& registry,
                                                            const std::string& of_devices);

// The names of the communication plugins except `name`, for messages.
std::string other_communicators(const plugins::host::Registry& registry, const std::string& name);

// Returns why a plugin that must be called by one thread at a time (RT_COMM_SINGLE_THREAD) cannot
// serve so many ranks; "" if it can.
std::string thread_fault(const plugins::host::PluginDescription& plugin,
                         const config::Config& config, int ranks);

// Whether the ranks that use the plugin are threads of one process.
bool in_one_process(const plugins::host::PluginDescription& plugin);

// The link that the plugin promises; parallel::kUnknownLink if it does not know.
parallel::Link link_of(const rt_comm_properties& properties);

// The facts that are known about ranks that are only planned.
struct PlannedRanks {
  std::string backend;      // communication plugin
  parallel::Link link;      // between two ranks on one machine
  bool one_process = true;  // ranks are threads of one process, and so share its device
};

// Describes ranks that would use comm.backend = `backend`. "" and "auto" are ranks that this
// process would start. The plugin need not exist.
PlannedRanks planned_ranks(const plugins::host::Registry& registry, const std::string& backend);

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_COMMUNICATORS_H_
