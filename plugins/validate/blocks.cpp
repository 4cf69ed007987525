// Looks up the allocation of a device that covers an address.
#include "plugins/validate/blocks.h"

#include <iterator>

namespace plugins::validate {

const Block* block_at(const DeviceObject& device, uintptr_t address) {
  const auto next = device.blocks.upper_bound(address);
  if (next == device.blocks.begin()) return nullptr;
  const Block& block = std::prev(next)->second;
  return address < block.range.end() ? &block : nullptr;
}

DeviceObject* owner_of(Tracker& tracker, uintptr_t address) {
  for (const auto& [handle, object] : tracker.objects) {
    if (object->kind != Kind::kDevice || !object->alive) continue;
    auto& device = static_cast<DeviceObject&>(*object);
    if (block_at(device, address) != nullptr) return &device;
  }
  return nullptr;
}

}  // namespace plugins::validate
