// Addresses for devices whose memory has none: the contract names memory by plain addresses, and
// the host adds offsets to them, while OpenCL and Vulkan know objects and offsets into these.
#ifndef RT_SDK_ADDRESS_MAP_H_
#define RT_SDK_ADDRESS_MAP_H_

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "rt/sdk/error.h"

namespace rt::sdk {

// Gives each object of a device a range of addresses of its own, and finds the object of an
// address. The ranges are reserved from the system and have no memory behind them, so that they
// differ from every address of the host and a host that touches one gets SIGSEGV. They begin on
// pages, so that an offset is a multiple of the device's alignment wherever the address is. Objects
// that have addresses of their own, such as pinned memory, are added with these. All methods may be
// called from any thread; find() allocates nothing.
template <typename Object>
class AddressMap {
 public:
  // Where an address lies.
  struct Place {
    Object object{};      // the object; an empty one if the address belongs to none
    uint64_t offset = 0;  // bytes from the beginning of the object
    uint64_t room = 0;    // bytes from there to its end
    // Whether the address belongs to an object.
    explicit operator bool() const { return room > 0; }
  };

  AddressMap() = default;
  AddressMap(const AddressMap&) = delete;
  AddressMap& operator=(const AddressMap&) = delete;
  ~AddressMap() {
    for (const auto& [begin, range] : ranges_) unreserve(begin, range);
  }

  // Reserves addresses for an object of `bytes` > 0 bytes and returns the first one. Throws Error
  // (RT_ERROR_OUT_OF_MEMORY) if the system has none left.
  void* add(Object object, uint64_t bytes) {
    void* const begin = mmap(nullptr, rounded(bytes), PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (begin == MAP_FAILED) {
      throw Error(RT_ERROR_OUT_OF_MEMORY,
                  format("no addresses are left for %llu bytes of device memory",
                         static_cast<unsigned long long>(bytes)));
    }
    try {
      insert(begin, {std::move(object), bytes, true});
    } catch (...) {
      munmap(begin, rounded(bytes));
      throw;
    }
    return begin;
  }
  // Adds an object whose addresses are [begin, begin + bytes).
  void add_at(void* begin, Object object, uint64_t bytes) {
    insert(begin, {std::move(object), bytes, false});
  }

  // The object that an address lies in and the offset there; an empty Place if there is none.
  Place find(const void* address) const {
    const auto* const wanted = static_cast<const std::byte*>(address);
    const std::shared_lock lock(mutex_);
    auto range = ranges_.upper_bound(wanted);
    if (range == ranges_.begin()) return {};
    --range;
    const auto offset = static_cast<uint64_t>(wanted - range->first);
    if (offset >= range->second.bytes) return {};
    return {range->second.object, offset, range->second.bytes - offset};
  }

  // The sum of the bytes of all objects.
  uint64_t bytes() const {
    const std::shared_lock lock(mutex_);
    return bytes_;
  }

  // Gives the addresses of an object back and returns the object; an empty Object if `address` is
  // not the first one of any.
  Object remove(const void* address) {
    const std::unique_lock lock(mutex_);
    const auto range = ranges_.find(static_cast<const std::byte*>(address));
    if (range == ranges_.end()) return {};
    Object object = std::move(range->second.object);
    bytes_ -= range->second.bytes;
    unreserve(range->first, range->second);
    ranges_.erase(range);
    return object;
  }

 private:
  struct Range {
    Object object;
    uint64_t bytes;
    bool reserved;
  };

  void insert(void* begin, Range range) {
    const std::unique_lock lock(mutex_);
    const uint64_t bytes = range.bytes;
    if (ranges_.emplace(static_cast<const std::byte*>(begin), std::move(range)).second)
      bytes_ += bytes;
  }
  static uint64_t rounded(uint64_t bytes) {
    const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    return (bytes + page - 1) / page * page;
  }
  static void unreserve(const std::byte* begin, const Range& range) {
    if (range.reserved) munmap(const_cast<std::byte*>(begin), rounded(range.bytes));
  }

  mutable std::shared_mutex mutex_;
  std::map<const std::byte*, Range> ranges_;  // guarded by mutex_
  uint64_t bytes_ = 0;                        // guarded by mutex_
};

}  // namespace rt::sdk

#endif  // RT_SDK_ADDRESS_MAP_H_
