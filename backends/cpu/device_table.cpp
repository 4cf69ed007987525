// The device: one, with inline streams and host memory.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "backends/cpu/bfloat16/processor.h"
#include "backends/cpu/objects.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/system.h"

namespace backends::cpu {
namespace {

using rt::sdk::Error;
using rt::sdk::format;

// Bytes in front of each allocation, which store its size. A multiple of the alignment, to keep it.
constexpr uint64_t kHeader = kAlignment;
constexpr int32_t kMaxThreads = 1024;

std::optional<Isa> read_isa(std::string_view value) {
  if (value == "native") return std::nullopt;
  const auto* isa = std::find_if(std::begin(kIsas), std::end(kIsas),
                                 [&](Isa known) { return value == option_name(known); });
  if (isa == std::end(kIsas)) {
    throw Error(
        RT_ERROR_INVALID_ARGUMENT,
        "option 'isa' is '" + std::string(value) + "'; expected native, avx512, avx2 or sse41",
        RT_SCOPE_DEVICE);
  }
  if (*isa > widest_isa()) {
    throw Error(RT_ERROR_UNAVAILABLE,
                "option 'isa' is '" + std::string(value) + "', which this processor (" +
                    processor_name() + ") does not have; the nearest that it has is '" +
                    option_name(widest_isa()) + "'",
                RT_SCOPE_DEVICE);
  }
  return *isa;
}

void read_option(const rt_option& option, EngineOptions& options) {
  const std::string_view key = option.key, value = option.value;
  if (key == "isa") {
    options.isa = read_isa(value);
    return;
  }
  bool* const switched = key == "winograd" ? &options.winograd
                         : key == "bf16x3" ? &options.bf16x3
                         : key == "pin"    ? &options.pin
                                           : nullptr;
  if (switched == nullptr) {
    throw Error(
        RT_ERROR_INVALID_ARGUMENT,
        "option '" + std::string(key) + "' is unknown to cpu; known: winograd, bf16x3, isa, pin",
        RT_SCOPE_DEVICE);
  }
  if (value != "true" && value != "false") {
    throw Error(
        RT_ERROR_INVALID_ARGUMENT,
        "option '" + std::string(key) + "' is '" + std::string(value) + "'; expected true or false",
        RT_SCOPE_DEVICE);
  }
  *switched = value == "true";
}

// `bytes` is a multiple of kAlignment. Large blocks are laid out for large pages, if the system has
// them on request: a product walks through rows that are pages apart, and would else wait for the
// translation of addresses.
void* allocate_block(uint64_t bytes) {
#ifdef MADV_HUGEPAGE
  constexpr uint64_t kLargePage = 2 << 20;
  if (bytes >= 2 * kLargePage) {
    const uint64_t whole = (bytes + kLargePage - 1) / kLargePage * kLargePage;
    void* block = whole < bytes ? nullptr : std::aligned_alloc(kLargePage, whole);
    if (block != nullptr) {
      madvise(block, whole, MADV_HUGEPAGE);  // a failure means only that the pages stay small
      return block;
    }
  }
#endif
  return std::aligned_alloc(kAlignment, bytes);
}

constexpr int64_t kCopyGrain = 1 << 20;  // bytes below which one thread copies or fills

}  // namespace

rt_device_properties Devices::properties(int32_t) {
  rt_device_properties p{};
  p.flags = RT_DEVICE_USABLE | RT_DEVICE_INLINE | RT_DEVICE_HOST_MEMORY;
  rt::sdk::copy_text(p.name, processor_name());
  rt::sdk::copy_text(p.stable_id, processor_identity());
  p.memory_bytes = system_memory().total_bytes;
  p.storage_dtypes = RT_DTYPE_BIT(RT_FLOAT32) | RT_DTYPE_BIT(RT_INT32) | RT_DTYPE_BIT(RT_INT64) |
                     RT_DTYPE_BIT(RT_UINT8);
  p.compute_dtypes = RT_DTYPE_BIT(RT_FLOAT32);
  // Whether an opened device computes in bfloat16 also depends on its options; see Engine.
  if (has_bfloat16()) p.compute_dtypes |= RT_DTYPE_BIT(RT_BFLOAT16);
  p.storage_dtypes |= p.compute_dtypes;
  p.alignment = kAlignment;
  p.priority = 200;
  p.threads = usable_cores();
  return p;
}

rt_device* Devices::open(int32_t, const rt_device_options& given) {
  EngineOptions options;
  options.threads = usable_cores();
  if (given.threads < 0 || given.threads > kMaxThreads) {
    throw Error(RT_ERROR_INVALID_ARGUMENT,
                format("cpu:0: %d threads; expected 1 to %d, or 0 for the number of usable cores "
                       "(%d)",
                       given.threads, kMaxThreads, options.threads),
                RT_SCOPE_DEVICE);
  }
  if (given.threads > 0) options.threads = given.threads;
  for (uint32_t i = 0; i < given.option_count; ++i) read_option(*given.options[i], options);
  return new rt_device(options);
}

}  // namespace backends::cpu

using backends::cpu::allocate_block;
using backends::cpu::kAlignment;
using backends::cpu::kCopyGrain;
using backends::cpu::kHeader;
using backends::cpu::parallel_parts;
using backends::cpu::system_memory;
using backends::cpu::SystemMemory;
using backends::cpu::Team;

void* rt_device::allocate(uint64_t bytes, int32_t) {
  const uint64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment + kHeader;
  void* block = rounded < bytes ? nullptr : allocate_block(rounded);
  if (block == nullptr) {
    throw rt::sdk::Error(RT_ERROR_OUT_OF_MEMORY,
                         rt::sdk::format("cpu:0: %lu bytes asked for, %lu available", bytes,
                                         system_memory().available_bytes),
                         RT_SCOPE_DEVICE);
  }
  std::memcpy(block, &bytes, sizeof(bytes));
  engine.allocated_bytes += bytes;
  return static_cast<char*>(block) + kHeader;
}

void rt_device::release(void* address, int32_t) {
  if (address == nullptr) return;
  char* block = static_cast<char*>(address) - kHeader;
  uint64_t bytes = 0;
  std::memcpy(&bytes, block, sizeof(bytes));
  engine.allocated_bytes -= bytes;
  std::free(block);
}

rt_memory_info rt_device::memory_info() const {
  const SystemMemory memory = system_memory();
  rt_memory_info m{};
  m.total_bytes = memory.total_bytes;
  m.free_bytes = memory.available_bytes;
  m.allocated_bytes = engine.allocated_bytes.load();
  return m;
}

void rt_stream::copy(void* destination, const void* source, uint64_t bytes) {
  const Team::Use use = engine.use_team();
  auto* to = static_cast<char*>(destination);
  const auto* from = static_cast<const char*>(source);
  parallel_parts(engine.threads(), static_cast<int64_t>(bytes), kCopyGrain, 4096,
                 [&](int, int64_t b, int64_t e) {
                   std::memcpy(to + b, from + b, static_cast<size_t>(e - b));
                 });
}

void rt_stream::fill(void* destination, int32_t value, uint64_t bytes) {
  const Team::Use use = engine.use_team();
  auto* to = static_cast<char*>(destination);
  parallel_parts(
      engine.threads(), static_cast<int64_t>(bytes), kCopyGrain, 4096,
      [&](int, int64_t b, int64_t e) { std::memset(to + b, value, static_cast<size_t>(e - b)); });
}
