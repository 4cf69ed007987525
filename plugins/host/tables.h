// Copies and checks the function tables of a plugin.
#ifndef PLUGINS_HOST_TABLES_H_
#define PLUGINS_HOST_TABLES_H_

#include <optional>
#include <string>

#include "rt/capture.h"
#include "rt/communicator.h"
#include "rt/device.h"
#include "rt/kernel.h"
#include "rt/native.h"
#include "rt/operation_set.h"
#include "rt/plugin.h"
#include "rt/reader.h"

namespace plugins::host {

// Copies of a plugin's tables in the size that this host knows, because those of the plugin may be
// shorter (older plugin) or longer (newer plugin). Slots that the plugin does not have are NULL;
// mandatory slots are always set. nullopt: the plugin does not offer the table.
struct Tables {
  std::optional<rt_device_api> device;
  std::optional<rt_kernel_api> kernel;
  std::optional<rt_communicator_api> communicator;
  std::optional<rt_capture_api> capture;
  std::optional<rt_native_api> native;
  std::optional<rt_reader_api> reader;
  std::optional<rt_operations_api> operations;
};

// Asks for every interface that this host knows. Throws Error, with `who` at the front, for a table
// of another version, a table that is too short, an empty mandatory slot, a plugin without any
// device, kernel, communicator, operations or reader table, and a kernel table without a device
// table.
Tables adopt_tables(const rt_plugin& plugin, const std::string& who);

}  // namespace plugins::host

#endif  // PLUGINS_HOST_TABLES_H_
