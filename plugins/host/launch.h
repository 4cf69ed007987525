// The call that launches a kernel, from vectors of addresses.
#ifndef PLUGINS_HOST_LAUNCH_H_
#define PLUGINS_HOST_LAUNCH_H_

#include <cstdint>
#include <vector>

#include "rt/kernel.h"

namespace plugins::host {

// Device addresses, in the order of the operation's operands; nullptr for a workspace or saved data
// of no bytes. The result is valid while the vectors live and do not change.
inline rt_launch make_launch(const std::vector<const void*>& inputs,
                             const std::vector<void*>& outputs, void* workspace, void* saved) {
  rt_launch launch{};
  launch.size = sizeof(launch);
  launch.inputs = inputs.data();
  launch.input_count = static_cast<uint32_t>(inputs.size());
  launch.outputs = outputs.data();
  launch.output_count = static_cast<uint32_t>(outputs.size());
  launch.workspace = workspace;
  launch.saved = saved;
  return launch;
}

}  // namespace plugins::host

#endif  // PLUGINS_HOST_LAUNCH_H_
