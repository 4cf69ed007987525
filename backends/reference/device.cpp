// The device reference:0, which is the host itself. All work is done in the calling thread before
// the call returns.
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "backends/reference/objects.h"
#include "rt/sdk/error.h"

namespace backends::reference {
namespace {

constexpr uint64_t kAlignment = 64;  // one cache line, and the widest vector register
// The types that operands may have. Operands in 16 bits are widened, computed with in float32, and
// rounded.
constexpr uint64_t kComputed = RT_DTYPE_BIT(RT_FLOAT32) | RT_DTYPE_BIT(RT_FLOAT64) |
                               RT_DTYPE_BIT(RT_FLOAT16) | RT_DTYPE_BIT(RT_BFLOAT16);
constexpr uint64_t kStored = kComputed | RT_DTYPE_BIT(RT_INT32) | RT_DTYPE_BIT(RT_INT64) |
                             RT_DTYPE_BIT(RT_UINT8) | RT_DTYPE_BIT(RT_INT8);

uint64_t pages(int name) {
  const long count = sysconf(name), size = sysconf(_SC_PAGESIZE);
  return count > 0 && size > 0 ? static_cast<uint64_t>(count) * static_cast<uint64_t>(size) : 0;
}

}  // namespace

rt_device_properties Devices::properties(int32_t) {
  rt_device_properties p{};
  p.flags = RT_DEVICE_USABLE | RT_DEVICE_INLINE | RT_DEVICE_HOST_MEMORY | RT_DEVICE_DEFINITION;
  rt::sdk::copy_text(p.name, "reference (host, 1 thread)");
  rt::sdk::copy_text(p.stable_id, "reference:0");
  p.memory_bytes = pages(_SC_PHYS_PAGES);
  p.storage_dtypes = kStored;
  p.compute_dtypes = kComputed;
  p.alignment = kAlignment;
  p.priority = 100;
  p.threads = 1;
  return p;
}

}  // namespace backends::reference

using backends::reference::kAlignment;
using backends::reference::pages;

void* rt_device::allocate(uint64_t bytes, int32_t) {
  // The system would grant more than the machine has (overcommitment), and the process would be
  // killed when it uses the memory.
  const bool fits = bytes <= pages(_SC_PHYS_PAGES);
  const uint64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = fits ? std::aligned_alloc(kAlignment, rounded) : nullptr;
  if (memory == nullptr) {
    throw rt::sdk::Error(
        RT_ERROR_OUT_OF_MEMORY,
        rt::sdk::format("reference:0: allocate %llu bytes failed, %llu bytes are free",
                        static_cast<unsigned long long>(bytes),
                        static_cast<unsigned long long>(pages(_SC_AVPHYS_PAGES))),
        RT_SCOPE_DEVICE);
  }
  std::unique_ptr<void, decltype(&std::free)> owner(memory, &std::free);
  const std::lock_guard lock(mutex_);
  allocations_.emplace(memory, bytes);
  allocated_bytes_ += bytes;
  return owner.release();
}

void rt_device::release(void* address, int32_t) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = allocations_.find(address);
    if (found == allocations_.end()) return;
    allocated_bytes_ -= found->second;
    allocations_.erase(found);
  }
  std::free(address);
}

rt_memory_info rt_device::memory_info() {
  rt_memory_info value{};
  value.total_bytes = pages(_SC_PHYS_PAGES);
  value.free_bytes = pages(_SC_AVPHYS_PAGES);
  const std::lock_guard lock(mutex_);
  value.allocated_bytes = allocated_bytes_;
  return value;
}
