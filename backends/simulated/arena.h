// The memory of one simulated device. The host has addresses that fault; the kernels use a second
// mapping of the same pages.
#ifndef BACKENDS_SIMULATED_ARENA_H_
#define BACKENDS_SIMULATED_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace backends::simulated {

// All methods may be called from any thread.
class Arena {
 public:
  static constexpr uint64_t kAlignment = 256;

  // Throws rt::sdk::Error if the system gives no address space.
  Arena(uint64_t bytes, bool poison);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Returns an address that faults when the host touches it; nullptr if no free block is large
  // enough.
  void* allocate(uint64_t bytes);
  // Frees an allocation; returns false if `address` is not the beginning of one.
  bool release(void* address);

  // Whether the address lies in the arena, allocated or not.
  bool contains(const void* address) const;
  // Returns the readable and writable address of [address, address + bytes); nullptr unless that
  // range lies within one allocation.
  std::byte* translate(const void* address, uint64_t bytes) const;

  uint64_t total_bytes() const { return bytes_; }
  uint64_t allocated_bytes() const;

 private:
  uint64_t offset_of(const void* address) const;

  uint64_t bytes_;
  bool poison_;
  std::byte* host_ = nullptr;    // addresses for the host, mapped as PROT_NONE
  std::byte* device_ = nullptr;  // the same pages, readable and writable
  mutable std::mutex mutex_;
  std::map<uint64_t, uint64_t> blocks_;  // offset -> bytes, guarded by mutex_
  uint64_t allocated_ = 0;               // rounded to the alignment, guarded by mutex_
};

}  // namespace backends::simulated

#endif  // BACKENDS_SIMULATED_ARENA_H_
