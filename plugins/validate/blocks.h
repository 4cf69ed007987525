// Which allocation an address belongs to.
#ifndef PLUGINS_VALIDATE_BLOCKS_H_
#define PLUGINS_VALIDATE_BLOCKS_H_

#include "plugins/validate/objects.h"

namespace plugins::validate {

// The caller of every function holds Tracker::mutex.

// The allocation of the device that contains the address; nullptr if there is none.
const Block* block_at(const DeviceObject& device, uintptr_t address);
// The open device that has allocated the address; nullptr if there is none.
DeviceObject* owner_of(Tracker& tracker, uintptr_t address);

}  // namespace plugins::validate

#endif  // PLUGINS_VALIDATE_BLOCKS_H_
