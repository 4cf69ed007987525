// Which device belongs to each slot of a job, for a job that goes on without some of them.
#ifndef RUNTIME_LAUNCH_SLOT_DEVICES_H_
#define RUNTIME_LAUNCH_SLOT_DEVICES_H_

#include <string>
#include <vector>

#include "plugins/host/registry.h"
#include "runtime/config/config.h"

namespace runtime::launch {

// The devices that the ranks of a job have while none is left out.
class SlotDevices {
 public:
  // Throws what choose_device() throws. `config` must outlive the object.
  SlotDevices(const config::Config& config, const plugins::host::HostServices& services,
              const plugins::host::Registry& registry);

  // Returns the arguments with which a rank runs when only these slots have ranks: their number and
  // their devices.
  std::vector<std::string> arguments(const std::vector<int>& slots) const;

  // Looks at the devices of this machine again. Returns whether the device of the slot is usable.
  // Does not throw: what cannot be looked at is not back.
  bool is_back(int slot) const;

 private:
  const config::Config& config_;
  const plugins::host::HostServices services_;
  std::vector<std::string> devices_;  // of each slot, as in launch.devices
};

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_SLOT_DEVICES_H_
