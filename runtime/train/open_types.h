// The types of layers and optimizers that plugins bring to a configuration.
#ifndef RUNTIME_TRAIN_OPEN_TYPES_H_
#define RUNTIME_TRAIN_OPEN_TYPES_H_

#include "plugins/host/plugin.h"
#include "runtime/config/open_operation.h"

namespace runtime::train {

// Returns the function that probes the plugins of the standard places and of the folders and files
// that it is given. It loads none into this process: a plugin is loaded when the shape of an
// operation without a formula is asked for. It throws DeviceError or plugins::host::Error for a
// plugin's fault, and logs through `services` which plugins are rejected.
config::FindOpenTypes find_open_types(const plugins::host::HostServices& services);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_OPEN_TYPES_H_
