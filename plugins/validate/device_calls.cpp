// The checking table rt.device for devices and memory; what still lives when a device is closed.
#include <algorithm>

#include "plugins/validate/calls.h"
#include "plugins/validate/memory.h"
#include "plugins/validate/order.h"

namespace plugins::validate {
namespace {

Instance& device_of(void* self) { return *static_cast<Instance*>(self); }

rt_status count(void* self, int32_t* count, rt_error* error) {
  const Instance& instance = device_of(self);
  return instance.plain.device->count(instance.self, count, error);
}

rt_status properties(void* self, int32_t index, rt_device_properties* properties, rt_error* error) {
  const Instance& instance = device_of(self);
  const rt_status status =
      instance.plain.device->properties(instance.self, index, properties, error);
  if (status != RT_OK || properties->size < sizeof(*properties)) return status;
  // The guards lie in the same buffer.
  const uint64_t guards = front_guard(*properties) + kGuardBytes;
  if (properties->largest_buffer > guards + properties->alignment)
    properties->largest_buffer -= guards;
  return status;
}

rt_status open(void* self, int32_t index, const rt_device_options* options, rt_device** device,
               rt_error* error) {
  Instance& instance = device_of(self);
  return answer(instance.tracker.findings, error, [&] {
    const rt_device_api& api = *instance.plain.device;
    auto object = std::make_unique<DeviceObject>(Kind::kDevice, instance,
                                                 instance.name + ":" + std::to_string(index));
    object->properties.size = sizeof(object->properties);
    require_made(api.properties(instance.self, index, &object->properties, error));
    object->properties.alignment = std::max<uint64_t>(object->properties.alignment, 1);
    require_made(api.open(instance.self, index, options, &object->plain, error));
    if (object->plain != nullptr)
      *device = static_cast<rt_device*>(instance.tracker.adopt(std::move(object)));
    return RT_OK;
  });
}

// Whether the object was made from the device.
bool belongs(const Object& object, const DeviceObject& device) {
  const auto* const part = dynamic_cast<const DevicePart*>(&object);
  return part != nullptr && part->device == &device;
}

// What still lives of the device: ", stream 'cpu:0 stream 1', 4000 bytes at 0x...". The caller
// holds Tracker::mutex.
std::string leaks_of(DeviceObject& device) {
  std::string leaks;
  for (const auto& [handle, object] : device.tracker().objects) {
    if (object->alive && belongs(*object, device))
      leaks += std::string(", ") + to_string(object->kind) + " '" + object->name + "'";
  }
  for (const auto& [address, block] : device.blocks) leaks += ", " + to_string(block.range);
  return leaks;
}

void close(rt_device* handle) {
  released<DeviceObject>(handle, [](DeviceObject& device) {
    expect_alive(device, "close");
    if (!device.findings().failed()) check_guards(device, "close");
    std::string leaks;
    {
      const std::lock_guard lock(device.tracker().mutex);
      leaks = leaks_of(device);
      device.tracker().bury(device);
    }
    if (device.service != nullptr) device.api().stream_destroy(device.service);
    // What was forgotten still points into the device, so closing it would be a second fault.
    if (leaks.empty()) return device.api().close(device.plain);
    device.fault(
        Offender::kRuntime, "close",
        "destroy everything first that was made from the device; left: " + leaks.substr(2));
  });
}

rt_status allocate(rt_device* handle, uint64_t bytes, int32_t kind, void** address,
                   rt_error* error) {
  return with<DeviceObject>(handle, error, [&](DeviceObject& device) {
    expect_alive(device, "allocate");
    expect_no_capture(device, "allocate");
    *address = allocate_guarded(device, bytes, kind, error);
  });
}

void free_memory(rt_device* handle, void* address, int32_t kind) {
  released<DeviceObject>(handle, [&](DeviceObject& device) {
    expect_alive(device, "free");
    free_guarded(device, address, kind);
  });
}

// Faults the plugin if it counts other device memory than was allocated. It may round an allocation
// up. The caller holds memory_mutex.
void check_allocated(DeviceObject& device, const rt_memory_info& info) {
  constexpr uint64_t kMostRounding = uint64_t{2} << 20;  // one huge page
  uint64_t allocated = device.own_bytes, blocks = 0;
  for (const auto& [address, block] : device.blocks) {
    if (block.kind != RT_MEMORY_DEVICE) continue;
    allocated += block.range.bytes;
    ++blocks;
  }
  const uint64_t most = allocated + (allocated == 0 ? 0 : (blocks + 64) * kMostRounding);
  if (info.allocated_bytes >= allocated && info.allocated_bytes <= most) return;
  device.fault(Offender::kPlugin, "memory_info",
               "allocated_bytes is " + std::to_string(info.allocated_bytes) + ", but " +
                   std::to_string(allocated) + " bytes are allocated through this device");
}

rt_status memory_info(rt_device* handle, rt_memory_info* info, rt_error* error) {
  return with<DeviceObject>(handle, error, [&](DeviceObject& device) {
    expect_alive(device, "memory_info");
    const std::lock_guard lock(device.memory_mutex);
    require(device.api().memory_info(device.plain, info, error));
    if (info->free_bytes > info->total_bytes)
      device.fault(Offender::kPlugin, "memory_info",
                   "free_bytes is " + std::to_string(info->free_bytes) +
                       ", more than total_bytes, which is " + std::to_string(info->total_bytes));
    check_allocated(device, *info);
    info->allocated_bytes -= device.own_bytes;
  });
}

rt_status utilisation(rt_device* handle, rt_utilisation* utilisation, rt_error* error) {
  return with<DeviceObject>(handle, error, [&](DeviceObject& device) {
    expect_alive(device, "utilisation");
    require_made(device.api().utilisation(device.plain, utilisation, error));
  });
}

}  // namespace

rt_device_api device_calls(const rt_device_api& plain) {
  rt_device_api table = plain;
  table.count = count;
  table.properties = properties;
  table.open = open;
  table.close = close;
  table.allocate = allocate;
  table.free = free_memory;
  table.memory_info = memory_info;
  if (plain.utilisation != nullptr) table.utilisation = utilisation;
  set_stream_calls(table);
  return table;
}

}  // namespace plugins::validate
