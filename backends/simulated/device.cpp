// Opens simulated devices, and makes the faults and delays that their options ask for.
#include "backends/simulated/device.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "rt/sdk/device_table.h"

namespace backends::simulated {

using rt::sdk::Error;
using rt::sdk::format;

namespace {

// The plugin counts devices before it knows any option, so their number comes from the environment.
constexpr char kCountVariable[] = "RUNTIME_SIMULATED_DEVICES";
constexpr int32_t kDefaultCount = 2, kMostDevices = 64;
// So are their properties.
constexpr char kLargestVariable[] = "RUNTIME_SIMULATED_LARGEST_BUFFER";

int32_t wanted_devices() {
  const char* text = std::getenv(kCountVariable);
  if (text == nullptr) return kDefaultCount;
  char* end = nullptr;
  const long count = std::strtol(text, &end, 10);
  if (*text == '\0' || *end != '\0' || count < 0 || count > kMostDevices) {
    throw Error(
        RT_ERROR_INVALID_ARGUMENT,
        format("%s is '%s', expected a number from 0 to %d", kCountVariable, text, kMostDevices),
        RT_SCOPE_PROCESS);
  }
  return static_cast<int32_t>(count);
}

uint64_t wanted_largest_buffer() {
  const char* text = std::getenv(kLargestVariable);
  if (text == nullptr) return 0;
  char* end = nullptr;
  const long long bytes = std::strtoll(text, &end, 10);
  if (*text == '\0' || *end != '\0' || bytes < 0) {
    throw Error(
        RT_ERROR_INVALID_ARGUMENT,
        format("%s is '%s', expected a number of bytes, or 0 for no limit", kLargestVariable, text),
        RT_SCOPE_PROCESS);
  }
  return static_cast<uint64_t>(bytes);
}

}  // namespace

Simulator::Simulator() : count_(wanted_devices()), largest_buffer_(wanted_largest_buffer()) {}

rt_device_properties Simulator::properties(int32_t index) const {
  rt_device_properties p{};
  p.flags = RT_DEVICE_USABLE;
  rt::sdk::copy_text(p.name, "simulated accelerator");
  rt::sdk::copy_text(p.stable_id, "simulated:" + std::to_string(index));
  p.memory_bytes = Options{}.memory_mb << 20;
  p.compute_dtypes = RT_DTYPE_BIT(RT_FLOAT32) | RT_DTYPE_BIT(RT_FLOAT64) |
                     RT_DTYPE_BIT(RT_FLOAT16) | RT_DTYPE_BIT(RT_BFLOAT16);
  p.storage_dtypes = p.compute_dtypes | RT_DTYPE_BIT(RT_INT32) | RT_DTYPE_BIT(RT_INT64) |
                     RT_DTYPE_BIT(RT_UINT8) | RT_DTYPE_BIT(RT_INT8);
  p.alignment = Arena::kAlignment;
  p.largest_buffer = largest_buffer_;
  return p;
}

void Simulator::add(const Device* device) {
  const std::lock_guard lock(mutex_);
  devices_.push_back(device);
}

void Simulator::remove(const Device* device) {
  const std::lock_guard lock(mutex_);
  std::erase(devices_, device);
}

std::string Simulator::owner_of(const void* address) const {
  const std::lock_guard lock(mutex_);
  for (const Device* device : devices_) {
    if (device->arena().contains(address)) return device->id();
  }
  return "no device";
}

Device::Device(Simulator& simulator, int32_t index, const Options& options)
    : simulator_(simulator),
      id_("simulated:" + std::to_string(index)),
      options_(options),
      arena_(options.memory_mb << 20, options.poison) {
  simulator_.add(this);
}

Device::~Device() {
  simulator_.remove(this);
  for (const auto& [address, bytes] : pinned_) std::free(const_cast<std::byte*>(address));
}

rt_memory_info Device::memory_info() const {
  return rt::sdk::own_memory_info(arena_.total_bytes(), arena_.allocated_bytes());
}

void* Device::allocate(uint64_t bytes, int32_t kind) {
  if (const uint64_t largest = simulator_.largest_buffer(); largest > 0 && bytes > largest) {
    throw Error(RT_ERROR_OUT_OF_MEMORY,
                format("%s: allocate %llu bytes failed: one buffer has at most %llu bytes (%s)",
                       id_.c_str(), static_cast<unsigned long long>(bytes),
                       static_cast<unsigned long long>(largest), kLargestVariable),
                RT_SCOPE_DEVICE);
  }
  if (kind == RT_MEMORY_PINNED_HOST) return allocate_pinned(bytes);
  void* address = arena_.allocate(bytes);
  if (address == nullptr) {
    throw Error(
        RT_ERROR_OUT_OF_MEMORY,
        format("%s: allocate %llu bytes failed: %llu of %llu bytes are free; use a smaller "
               "batch or raise memory_mb",
               id_.c_str(), static_cast<unsigned long long>(bytes),
               static_cast<unsigned long long>(arena_.total_bytes() - arena_.allocated_bytes()),
               static_cast<unsigned long long>(arena_.total_bytes())),
        RT_SCOPE_DEVICE);
  }
  return address;
}

void Device::release(void* address, int32_t kind) {
  if (kind == RT_MEMORY_PINNED_HOST) return release_pinned(address);
  arena_.release(address);
}

void* Device::allocate_pinned(uint64_t bytes) {
  const uint64_t whole = (bytes + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment;
  auto* address = static_cast<std::byte*>(std::aligned_alloc(Arena::kAlignment, whole));
  if (address == nullptr) {
    throw Error(RT_ERROR_OUT_OF_MEMORY,
                format("%s: allocate %llu bytes of pinned host memory "
                       "failed",
                       id_.c_str(), static_cast<unsigned long long>(bytes)));
  }
  if (options_.poison) std::memset(address, 0xFF, bytes);
  const std::lock_guard lock(mutex_);
  pinned_.emplace(address, bytes);
  return address;
}

void Device::release_pinned(void* address) {
  const std::lock_guard lock(mutex_);
  if (pinned_.erase(static_cast<const std::byte*>(address)) > 0) std::free(address);
}

std::byte* Device::device_range(const void* address, uint64_t bytes, const Place& place) const {
  std::byte* const translated = arena_.translate(address, bytes);
  if (translated != nullptr) return translated;
  const std::string owner = simulator_.owner_of(address);
  const std::string problem =
      arena_.contains(address)
          ? format(
                "%llu bytes at %p are not within one allocation of %s; were they freed too early?",
                static_cast<unsigned long long>(bytes), address, id_.c_str())
          : format("%p belongs to %s, expected memory of %s; copy it there first", address,
                   owner.c_str(), id_.c_str());
  throw Error(RT_ERROR_INVALID_ARGUMENT,
              format("%s: %s: %s %zu: ", id_.c_str(), place.operation, place.operand, place.index) +
                  problem,
              RT_SCOPE_STREAM);
}

std::byte* Device::any_range(const void* address, uint64_t bytes, const Place& place) const {
  const bool nobodys = simulator_.owner_of(address) == "no device";
  if (!nobodys) return device_range(address, bytes, place);
  return static_cast<std::byte*>(const_cast<void*>(address));
}

bool Device::is_pageable(const void* address) const {
  if (arena_.contains(address)) return false;
  const std::lock_guard lock(mutex_);
  auto block = pinned_.upper_bound(static_cast<const std::byte*>(address));
  if (block == pinned_.begin()) return true;
  --block;
  return static_cast<const std::byte*>(address) >= block->first + block->second;
}

void Device::count_launch(const std::string& operation) {
  if (options_.slow_launch > 0 && ++all_launches_ == options_.slow_launch)
    std::this_thread::sleep_for(std::chrono::milliseconds(options_.slow_ms));
  if (options_.fail_after < 0) return;
  if (!options_.fail_launch.empty() && options_.fail_launch != operation) return;
  const std::lock_guard lock(mutex_);
  if (++launches_ <= options_.fail_after) return;
  throw Error(RT_ERROR_DEVICE,
              format("%s: %s: injected fault in launch %lld (fail_after = %lld)", id_.c_str(),
                     operation.c_str(), static_cast<long long>(launches_),
                     static_cast<long long>(options_.fail_after)),
              RT_SCOPE_STREAM);
}

uint64_t Device::next_stream_seed() {
  const std::lock_guard lock(mutex_);
  return options_.seed * 1000003 + streams_++;
}

}  // namespace backends::simulated
