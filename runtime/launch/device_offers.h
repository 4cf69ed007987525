// comm.backend = "auto" where ranks compute on devices whose memory a communicator reads: NCCL for
// those of cuda. All ranks must come to the same answer, also where they see different machines.
#ifndef RUNTIME_LAUNCH_DEVICE_OFFERS_H_
#define RUNTIME_LAUNCH_DEVICE_OFFERS_H_

#include <string>
#include <vector>

#include "plugins/host/device.h"
#include "plugins/host/registry.h"
#include "runtime/config/config.h"

namespace runtime::launch {

// What a rank on this machine could use: "nccl <machine> <device>"; "" if there is no such
// communicator for its device, or the job has to send host memory too.
std::string device_offer(const config::Config& config, const plugins::host::Registry& registry,
                         int local_rank, int world_size);

// The communicator that all can use, each on a device of its own; "" if there is none.
std::string common_offer(const std::vector<std::string>& offers);

// The device of a rank, opened, if the communicators of `plugin` read its memory; nullptr: they
// get host memory. `choice`: as train::open_device.
std::shared_ptr<plugins::host::Device> open_device_for(const plugins::host::Plugin& plugin,
                                                       const config::Config& config,
                                                       const plugins::host::Registry& registry,
                                                       int local_rank, std::string* choice);

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_DEVICE_OFFERS_H_
