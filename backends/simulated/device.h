// One opened simulated device, and the plugin instance, which knows all devices.
#ifndef BACKENDS_SIMULATED_DEVICE_H_
#define BACKENDS_SIMULATED_DEVICE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "backends/simulated/arena.h"
#include "backends/simulated/options.h"

namespace backends::simulated {

class Device;

// The devices of an instance share a simulator. All methods may be called from any thread.
class Simulator {
 public:
  // Throws if the environment asks for an impossible number of devices or size of buffers.
  Simulator();
  // The methods that rt/sdk/device_table.h asks for.
  int32_t count() const { return count_; }
  rt_device_properties properties(int32_t index) const;
  uint64_t largest_buffer() const { return largest_buffer_; }  // bytes; 0: no limit
  rt_device* open(int32_t index, const rt_device_options& options);
  void add(const Device* device);
  void remove(const Device* device);
  // For example "simulated:1"; "no device" if no device contains the address.
  std::string owner_of(const void* address) const;

 private:
  const int32_t count_;
  const uint64_t largest_buffer_;
  mutable std::mutex mutex_;
  std::vector<const Device*> devices_;  // guarded by mutex_
};

// The operand that an error message names, as in "matmul: input 1". The text is made only for an
// error.
struct Place {
  const char* operation;
  const char* operand;
  size_t index = 0;
};

// All methods may be called from any thread.
class Device {
 public:
  Device(Simulator& simulator, int32_t index, const Options& options);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::string& id() const { return id_; }
  const Options& options() const { return options_; }
  const Arena& arena() const { return arena_; }
  rt_memory_info memory_info() const;

  void* allocate(uint64_t bytes, int32_t kind);
  void release(void* address, int32_t kind);

  // Returns the address at which kernels find [address, address + bytes). Throws an error that
  // names this device and the owner of the address unless the range is allocated on this device.
  std::byte* device_range(const void* address, uint64_t bytes, const Place& place) const;

  // For copies: accepts memory of this device and host memory; throws for memory of another device.
  std::byte* any_range(const void* address, uint64_t bytes, const Place& place) const;
  // Whether the address is host memory that this device has not allocated as pinned.
  bool is_pageable(const void* address) const;

  // Counts the launch. Throws the injected fault, or takes the time of the slow launch, when it is
  // due.
  void count_launch(const std::string& operation);
  // The clock of the device's own, in nanoseconds, if the options give it one.
  bool has_clock() const { return !options_.algorithm_ns.empty(); }
  int64_t clock() const { return clock_; }
  void advance_clock(int64_t ns) { clock_ += ns; }
  // A seed for the delays of a new stream.
  uint64_t next_stream_seed();

 private:
  void* allocate_pinned(uint64_t bytes);
  void release_pinned(void* address);

  Simulator& simulator_;
  const std::string id_;
  const Options options_;
  Arena arena_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, uint64_t> pinned_;  // address -> bytes, guarded by mutex_
  int64_t launches_ = 0;                         // guarded by mutex_
  std::atomic<int64_t> all_launches_ = 0, clock_ = 0;
  uint64_t streams_ = 0;  // guarded by mutex_
};

}  // namespace backends::simulated

#endif  // BACKENDS_SIMULATED_DEVICE_H_
