// Adopting the function tables that a plugin answers with.
#ifndef PLUGINS_HOST_TABLES_H_
#define PLUGINS_HOST_TABLES_H_

#include <optional>
#include <string>

#include "rt/capture.h"
#include "rt/communicator.h"
#include "rt/device.h"
#include "rt/kernel.h"
#include "rt/plugin.h"

namespace plugins::host {

// A table as this host knows it: a copy, because the plugin's may be shorter (older plugin) or
// longer (newer plugin). What the plugin does not have is NULL; mandatory slots are there.
struct Tables {
  std::optional<rt_device_api> device;
  std::optional<rt_kernel_api> kernel;
  std::optional<rt_communicator_api> communicator;
  std::optional<rt_capture_api> capture;
};

// Asks for every interface that this host knows. Throws Error, beginning with `who`, for a table
// of another version, one that is too short, an empty slot, or a plugin without any interface.
Tables adopt_tables(const rt_plugin& plugin, const std::string& who);

}  // namespace plugins::host

#endif  // PLUGINS_HOST_TABLES_H_
