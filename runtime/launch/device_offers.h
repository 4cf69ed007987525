// comm.backend = "auto" for ranks whose communicator reads the memory of their devices, for example
// NCCL for cuda. All ranks must come to the same result, even if they run on different machines.
#ifndef RUNTIME_LAUNCH_DEVICE_OFFERS_H_
#define RUNTIME_LAUNCH_DEVICE_OFFERS_H_

#include <string>
#include <vector>

#include "plugins/host/device.h"
#include "plugins/host/registry.h"
#include "runtime/config/config.h"

namespace runtime::launch {

// Returns what a rank on this machine could use, "<plugin> <machine> <device>". Returns "" if no
// such communicator exists for its device, or if the job must send host memory too.
std::string device_offer(const config::Config& config, const plugins::host::Registry& registry,
                         int local_rank, int world_size);

// Returns the communication plugin that all ranks can use, each on a device of its own, or "" if
// there is none.
std::string common_offer(const std::vector<std::string>& offers);

// Opens and returns the device of a rank if the communicators of `plugin` read its memory;
// otherwise returns nullptr, and they are given host memory. `choice` is as for open_device.
// Throws what opening a device throws.
std::shared_ptr<plugins::host::Device> open_device_for(const plugins::host::Plugin& plugin,
                                                       const config::Config& config,
                                                       const plugins::host::Registry& registry,
                                                       int local_rank, std::string* choice);

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_DEVICE_OFFERS_H_
