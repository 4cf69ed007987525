// A device that uses host memory and does its work in the calling thread, without queues. For an
// accelerator, call the vendor's library in these methods, keep its objects in rt_stream and
// rt_event, and remove the flags RT_DEVICE_INLINE and RT_DEVICE_HOST_MEMORY from the properties.
#include <cstring>
#include <new>

#include "rt/sdk/error.h"
#include "template_device.h"

using rt::sdk::Error;
using rt::sdk::format;

namespace {

constexpr std::align_val_t kAlignment{64};
constexpr uint64_t kMemory = uint64_t{4} << 30;  // bytes

}  // namespace

namespace template_device {

// A plugin should also list a device that cannot be used because its driver is missing, without the
// flag RT_DEVICE_USABLE and with the reason.
rt_device_properties Devices::properties(int32_t) const {
  rt_device_properties p{};
  p.flags = RT_DEVICE_USABLE | RT_DEVICE_INLINE | RT_DEVICE_HOST_MEMORY;
  rt::sdk::copy_text(p.name, "template_device (host, 1 thread)");
  rt::sdk::copy_text(p.stable_id, "template_device-0");
  p.memory_bytes = kMemory;
  p.storage_dtypes = RT_DTYPE_BIT(RT_FLOAT32) | RT_DTYPE_BIT(RT_INT32) | RT_DTYPE_BIT(RT_INT64);
  p.compute_dtypes = RT_DTYPE_BIT(RT_FLOAT32);
  p.alignment = static_cast<uint64_t>(kAlignment);
  p.priority = 0;  // device.backend = "auto" takes it last; see plugins/README.md
  p.threads = 1;
  return p;
}

rt_device* Devices::open(int32_t, const rt_device_options&) const { return new rt_device; }

}  // namespace template_device

rt_device::~rt_device() {
  for (const auto& [address, bytes] : sizes_) ::operator delete(address, kAlignment);
}

void* rt_device::allocate(uint64_t bytes, int32_t) {
  const std::lock_guard lock(mutex_);
  if (bytes > kMemory - allocated_) {
    throw Error(RT_ERROR_OUT_OF_MEMORY,
                format("%llu bytes asked for, %llu of %llu are free; use smaller batches",
                       static_cast<unsigned long long>(bytes),
                       static_cast<unsigned long long>(kMemory - allocated_),
                       static_cast<unsigned long long>(kMemory)));
  }
  void* const address = ::operator new(bytes, kAlignment);
  sizes_[address] = bytes;
  allocated_ += bytes;
  return address;
}

void rt_device::release(void* address, int32_t) {
  const std::lock_guard lock(mutex_);
  const auto found = sizes_.find(address);
  if (found == sizes_.end()) return;
  allocated_ -= found->second;
  sizes_.erase(found);
  ::operator delete(address, kAlignment);
}

rt_memory_info rt_device::memory_info() const {
  const std::lock_guard lock(mutex_);
  rt_memory_info info{};
  info.total_bytes = kMemory;
  info.allocated_bytes = allocated_;
  info.free_bytes = kMemory - allocated_;
  return info;
}

void rt_stream::copy(void* to, const void* from, uint64_t bytes) { std::memcpy(to, from, bytes); }

void rt_stream::fill(void* to, int32_t value, uint64_t bytes) { std::memset(to, value, bytes); }
