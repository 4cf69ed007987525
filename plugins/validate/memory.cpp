// Allocates with guards and poison, and finds the allocation whose guard has changed.
#include "plugins/validate/memory.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "plugins/validate/blocks.h"
#include "plugins/validate/order.h"

namespace plugins::validate {
namespace {

constexpr std::size_t kMostFreed = 4096;

uint64_t guard_in_front(const DeviceObject& device) { return front_guard(device.properties); }

bool host_can_touch(const DeviceObject& device, int32_t kind) {
  return kind == RT_MEMORY_PINNED_HOST || (device.properties.flags & RT_DEVICE_HOST_MEMORY) != 0;
}

rt_stream* service_of(DeviceObject& device, rt_error* error) {
  if (device.service == nullptr)
    require(device.api().stream_create(device.plain, &device.service, error));
  return device.service;
}

std::string where_of(const DeviceObject& device, const char* call, const Block& block) {
  return device.name + ": " + call + ": " + to_string(block.range);
}

void write_guards(DeviceObject& device, const Block& block, rt_error* error) {
  auto* const base = static_cast<std::byte*>(block.base);
  const uint64_t front = guard_in_front(device);
  if (host_can_touch(device, block.kind)) {
    std::memset(base, static_cast<int>(kGuard), front);
    std::memset(base + front + block.range.bytes, static_cast<int>(kGuard), kGuardBytes);
    return;
  }
  rt_stream* const stream = service_of(device, error);
  const auto fill = [&](std::byte* at, uint64_t bytes) {
    require(device.api().fill(stream, at, static_cast<int32_t>(kGuard), bytes, error));
  };
  fill(base, front);
  fill(base + front + block.range.bytes, kGuardBytes);
  require(device.api().stream_synchronize(stream, error));
}

// Code of the runtime reaches some memory without any call.
std::string who_else(const DeviceObject& device, const Block& block) {
  return host_can_touch(device, block.kind) ? " (or code of the runtime that uses it directly)"
                                            : "";
}

// The guards of a block as they are now: those in front of it, then those behind.
std::vector<std::byte> read_guards(DeviceObject& device, const Block& block) {
  const auto* const base = static_cast<const std::byte*>(block.base);
  const uint64_t front = guard_in_front(device);
  std::vector<std::byte> bytes(front + kGuardBytes);
  if (host_can_touch(device, block.kind)) {
    std::memcpy(bytes.data(), base, front);
    std::memcpy(bytes.data() + front, base + front + block.range.bytes, kGuardBytes);
    return bytes;
  }
  rt_error error = {};
  error.size = sizeof(error);
  rt_stream* const stream = service_of(device, &error);
  require(device.api().copy(stream, bytes.data(), base, front, &error));
  require(device.api().copy(stream, bytes.data() + front, base + front + block.range.bytes,
                            kGuardBytes, &error));
  require(device.api().stream_synchronize(stream, &error));
  return bytes;
}

void check_block(DeviceObject& device, const char* call, const Block& block) {
  const std::vector<std::byte> guards = read_guards(device, block);
  const auto front = guards.begin() + static_cast<std::ptrdiff_t>(guard_in_front(device));
  const auto changed = [](std::byte b) { return b != kGuard; };
  if (const auto at = std::find_if(front, guards.end(), changed); at != guards.end())
    device.findings().fault(Offender::kPlugin, where_of(device, call, block),
                            "a byte was written " + std::to_string(at - front + 1) +
                                " behind the end of this allocation" + who_else(device, block));
  const auto last = std::find_if(std::make_reverse_iterator(front), guards.rend(), changed);
  if (last != guards.rend())
    device.findings().fault(Offender::kPlugin, where_of(device, call, block),
                            "a byte was written " +
                                std::to_string(last - std::make_reverse_iterator(front) + 1) +
                                " in front of this allocation" + who_else(device, block));
}

bool was_freed(const DeviceObject& device, const Range& range) {
  return std::any_of(device.freed.begin(), device.freed.end(),
                     [&](const Block& freed) { return freed.range.overlaps(range); });
}

void expect_inside(DeviceObject& device, const Block& block, const Range& range,
                   const std::string& where) {
  if (block.range.contains(range)) return;
  device.findings().fault(Offender::kRuntime, where,
                          to_string(range) + " reach beyond the allocation of " +
                              to_string(block.range) + " on " + device.name);
}

// Whether the memory is host memory that another device has allocated, and this device computes in
// host memory: so a fallback device gets the operands of the device that it stands in for.
bool is_shared_host_memory(DeviceObject& device, const Range& range, const std::string& where) {
  if ((device.properties.flags & RT_DEVICE_HOST_MEMORY) == 0) return false;
  DeviceObject* const owner = owner_of(device.tracker(), range.begin);
  if (owner == nullptr) return false;
  const Block& block = *block_at(*owner, range.begin);
  if (!host_can_touch(*owner, block.kind)) return false;
  expect_inside(*owner, block, range, where);
  return true;
}

void keep(DeviceObject& device, const Block& block, const std::string& where) {
  const std::lock_guard lock(device.tracker().mutex);
  const auto next = device.blocks.upper_bound(block.range.begin);
  const bool taken = block_at(device, block.range.begin) != nullptr ||
                     (next != device.blocks.end() && next->second.range.begin < block.range.end());
  if (taken)
    device.findings().fault(Offender::kPlugin, where,
                            to_string(block.range) + " overlap memory that is still allocated");
  std::erase_if(device.freed,
                [&](const Block& freed) { return freed.range.overlaps(block.range); });
  device.blocks.emplace(block.range.begin, block);
}

// Takes the block at the address out of the device. The caller holds memory_mutex.
Block take(DeviceObject& device, const void* address, int32_t kind) {
  const std::lock_guard lock(device.tracker().mutex);
  const std::string where = device.name + ": free";
  const auto found = device.blocks.find(reinterpret_cast<uintptr_t>(address));
  if (found == device.blocks.end()) {
    const Range range = range_of(address, 1);
    device.findings().fault(Offender::kRuntime, where,
                            was_freed(device, range)
                                ? to_string(range) + " were freed before"
                                : to_string(range) + " are not the begin of an allocation");
  }
  const Block block = found->second;
  if (block.kind != kind)
    device.findings().fault(Offender::kRuntime, where + ": " + to_string(block.range),
                            "allocated with memory kind " + std::to_string(block.kind) +
                                ", freed with " + std::to_string(kind));
  expect_unused(device, block.range, where);
  device.blocks.erase(found);
  device.history.forget(block.range);
  device.freed.push_back(block);
  if (device.freed.size() > kMostFreed) device.freed.pop_front();
  return block;
}

}  // namespace

void* allocate_guarded(DeviceObject& device, uint64_t bytes, int32_t kind, rt_error* error) {
  const std::string where = device.name + ": allocate";
  if (bytes == 0) device.findings().fault(Offender::kRuntime, where, "0 bytes; ask for at least 1");
  const std::lock_guard lock(device.memory_mutex);
  const uint64_t front = guard_in_front(device);
  Block block;
  block.kind = kind;
  require_made(
      device.api().allocate(device.plain, front + bytes + kGuardBytes, kind, &block.base, error));
  if (block.base == nullptr) return nullptr;
  if (reinterpret_cast<uintptr_t>(block.base) % device.properties.alignment != 0)
    device.findings().fault(Offender::kPlugin, where,
                            to_string(range_of(block.base, bytes)) + " are not aligned to " +
                                std::to_string(device.properties.alignment) + " bytes");
  auto* const address = static_cast<std::byte*>(block.base) + front;
  block.range = range_of(address, bytes);
  write_guards(device, block, error);
  keep(device, block, where);
  if (kind == RT_MEMORY_DEVICE) device.own_bytes += front + kGuardBytes;
  return address;
}

void free_guarded(DeviceObject& device, void* address, int32_t kind) {
  const std::lock_guard memory_lock(device.memory_mutex);
  const Block block = take(device, address, kind);
  if (!device.findings().failed()) check_block(device, "free", block);
  device.api().free(device.plain, block.base, kind);
  if (kind == RT_MEMORY_DEVICE) device.own_bytes -= guard_in_front(device) + kGuardBytes;
}

void check_guards(DeviceObject& device, const char* call) {
  const std::lock_guard memory_lock(device.memory_mutex);
  std::vector<Block> blocks;
  {
    const std::lock_guard lock(device.tracker().mutex);
    if (device.captures > 0) return;
    for (const auto& [address, block] : device.blocks) blocks.push_back(block);
  }
  for (const Block& block : blocks) check_block(device, call, block);
}

void expect_device_memory(DeviceObject& device, const Range& range, const std::string& where) {
  const Block* const block = block_at(device, range.begin);
  if (block != nullptr && block->kind == RT_MEMORY_DEVICE)
    return expect_inside(device, *block, range, where);
  if (block == nullptr && is_shared_host_memory(device, range, where)) return;
  std::string what = to_string(range);
  if (block != nullptr) {
    what += " lie in pinned host memory, which kernels may not use";
  } else if (was_freed(device, range)) {
    what += " lie in memory that was freed";
  } else if (const DeviceObject* const owner = owner_of(device.tracker(), range.begin)) {
    what += " belong to " + owner->name;
  } else {
    what += " are not memory of " + device.name;
  }
  device.findings().fault(Offender::kRuntime, where, what);
}

bool expect_any_memory(DeviceObject& device, const Range& range, const std::string& where) {
  if (const Block* const block = block_at(device, range.begin)) {
    expect_inside(device, *block, range, where);
    return true;
  }
  // Memory of the host that was freed may belong to the rest of the process again.
  const auto lost = [&](const Block& freed) {
    return freed.range.overlaps(range) && !host_can_touch(device, freed.kind);
  };
  if (std::any_of(device.freed.begin(), device.freed.end(), lost))
    device.findings().fault(Offender::kRuntime, where,
                            to_string(range) + " lie in memory that was freed");
  const DeviceObject* const owner = owner_of(device.tracker(), range.begin);
  if (owner == nullptr || host_can_touch(*owner, block_at(*owner, range.begin)->kind)) return false;
  device.findings().fault(Offender::kRuntime, where,
                          to_string(range) + " are memory of " + owner->name);
}

}  // namespace plugins::validate
