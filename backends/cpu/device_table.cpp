// The table rt.device: one device, inline streams, host memory.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "backends/cpu/bfloat16/processor.h"
#include "backends/cpu/objects.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/system.h"
#include "rt/sdk/error.h"
#include "rt/sdk/plugin.h"

namespace backends::cpu {
namespace {

using rt::sdk::Error;
using rt::sdk::format;
using rt::sdk::guard;

// Bytes in front of each allocation, which store its size. A multiple of the alignment, to keep it.
constexpr uint64_t kHeader = kAlignment;
constexpr int32_t kMaxThreads = 1024;

void check_index(int32_t index) {
  if (index == 0) return;
  throw Error(RT_ERROR_INVALID_ARGUMENT, format("cpu:%d does not exist; there is cpu:0", index),
              RT_SCOPE_DEVICE);
}

rt_status device_count(void*, int32_t* count, rt_error* error) {
  return guard(error, [&] { *count = 1; });
}

rt_status device_properties(void*, int32_t index, rt_device_properties* result, rt_error* error) {
  return guard(error, [&] {
    check_index(index);
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
    rt::sdk::write_output(result, p);
  });
}

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
  const bool is_winograd = key == "winograd";
  if (!is_winograd && key != "bf16x3") {
    throw Error(RT_ERROR_INVALID_ARGUMENT,
                "option '" + std::string(key) + "' is unknown to cpu; known: winograd, bf16x3, isa",
                RT_SCOPE_DEVICE);
  }
  if (value != "true" && value != "false") {
    throw Error(
        RT_ERROR_INVALID_ARGUMENT,
        "option '" + std::string(key) + "' is '" + std::string(value) + "'; expected true or false",
        RT_SCOPE_DEVICE);
  }
  (is_winograd ? options.winograd : options.bf16x3) = value == "true";
}

rt_status device_open(void*, int32_t index, const rt_device_options* given, rt_device** device,
                      rt_error* error) {
  return guard(error, [&] {
    check_index(index);
    EngineOptions options;
    options.threads = usable_cores();
    if (given != nullptr) {
      rt::sdk::check_input(given);
      if (given->threads < 0 || given->threads > kMaxThreads) {
        throw Error(RT_ERROR_INVALID_ARGUMENT,
                    format("cpu:0: %d threads; expected 1 to %d, or 0 for the number of usable "
                           "cores (%d)",
                           given->threads, kMaxThreads, options.threads),
                    RT_SCOPE_DEVICE);
      }
      if (given->threads > 0) options.threads = given->threads;
      for (uint32_t i = 0; i < given->option_count; ++i) read_option(*given->options[i], options);
    }
    *device = new rt_device(options);
  });
}

void device_close(rt_device* device) { delete device; }

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

rt_status allocate(rt_device* device, uint64_t bytes, int32_t kind, void** address,
                   rt_error* error) {
  return guard(error, [&] {
    if (kind != RT_MEMORY_DEVICE && kind != RT_MEMORY_PINNED_HOST) {
      throw Error(
          RT_ERROR_INVALID_ARGUMENT,
          format("memory kind %d; expected RT_MEMORY_DEVICE (0) or RT_MEMORY_PINNED_HOST (1)",
                 kind));
    }
    if (bytes == 0)
      throw Error(RT_ERROR_INVALID_ARGUMENT, "an allocation of 0 bytes; expected at least 1");
    const uint64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment + kHeader;
    void* block = rounded < bytes ? nullptr : allocate_block(rounded);
    if (block == nullptr) {
      throw Error(RT_ERROR_OUT_OF_MEMORY,
                  format("cpu:0: %lu bytes asked for, %lu available", bytes,
                         system_memory().available_bytes),
                  RT_SCOPE_DEVICE);
    }
    std::memcpy(block, &bytes, sizeof(bytes));
    device->engine.allocated_bytes += bytes;
    *address = static_cast<char*>(block) + kHeader;
  });
}

void release(rt_device* device, void* address, int32_t) {
  if (address == nullptr) return;
  char* block = static_cast<char*>(address) - kHeader;
  uint64_t bytes = 0;
  std::memcpy(&bytes, block, sizeof(bytes));
  device->engine.allocated_bytes -= bytes;
  std::free(block);
}

rt_status stream_create(rt_device* device, rt_stream** stream, rt_error* error) {
  return guard(error, [&] { *stream = new rt_stream{device}; });
}
void stream_destroy(rt_stream* stream) { delete stream; }
rt_status stream_synchronize(rt_stream*, rt_error*) { return RT_OK; }  // always idle

constexpr int64_t kCopyGrain = 1 << 20;  // bytes below which one thread copies or fills

rt_status copy(rt_stream* stream, void* destination, const void* source, uint64_t bytes,
               rt_error* error) {
  return guard(error, [&] {
    const Engine& engine = stream->device->engine;
    engine.bind_calling_thread();
    auto* to = static_cast<char*>(destination);
    const auto* from = static_cast<const char*>(source);
    parallel_parts(engine.threads(), static_cast<int64_t>(bytes), kCopyGrain, 4096,
                   [&](int, int64_t b, int64_t e) {
                     std::memcpy(to + b, from + b, static_cast<size_t>(e - b));
                   });
  });
}

rt_status fill(rt_stream* stream, void* destination, int32_t value, uint64_t bytes,
               rt_error* error) {
  return guard(error, [&] {
    if (value < 0 || value > 255) {
      throw Error(RT_ERROR_INVALID_ARGUMENT, format("fill value %d; expected 0 to 255", value));
    }
    const Engine& engine = stream->device->engine;
    engine.bind_calling_thread();
    auto* to = static_cast<char*>(destination);
    parallel_parts(
        engine.threads(), static_cast<int64_t>(bytes), kCopyGrain, 4096,
        [&](int, int64_t b, int64_t e) { std::memset(to + b, value, static_cast<size_t>(e - b)); });
  });
}

rt_status event_create(rt_device*, rt_event** event, rt_error* error) {
  return guard(error, [&] { *event = new rt_event; });
}
void event_destroy(rt_event* event) { delete event; }
rt_status event_record(rt_event* event, rt_stream*, rt_error*) {
  event->recorded = std::chrono::steady_clock::now();
  event->was_recorded = true;
  return RT_OK;
}
// Streams are inline, so everything before event_record had finished when it returned.
rt_status event_wait(rt_event*, rt_stream*, rt_error*) { return RT_OK; }
rt_status event_synchronize(rt_event*, rt_error*) { return RT_OK; }
rt_status event_query(rt_event*, rt_error*) { return RT_OK; }

rt_status event_elapsed(rt_event* begin, rt_event* end, int64_t* nanoseconds, rt_error* error) {
  return guard(error, [&] {
    if (!begin->was_recorded || !end->was_recorded) {
      throw Error(RT_ERROR_INVALID_ARGUMENT,
                  "the elapsed time of an event that was never recorded; record both events and "
                  "wait for them first");
    }
    *nanoseconds =
        std::chrono::duration_cast<std::chrono::nanoseconds>(end->recorded - begin->recorded)
            .count();
  });
}

rt_status memory_info(rt_device* device, rt_memory_info* info, rt_error* error) {
  return guard(error, [&] {
    const SystemMemory memory = system_memory();
    rt_memory_info m{};
    m.total_bytes = memory.total_bytes;
    m.free_bytes = memory.available_bytes;
    m.allocated_bytes = device->engine.allocated_bytes.load();
    rt::sdk::write_output(info, m);
  });
}

rt_status utilisation(rt_device*, rt_utilisation* answer, rt_error* error) {
  return guard(error, [&] { rt::sdk::write_output(answer, rt_utilisation{0, -1, -1, -1, -1}); });
}

}  // namespace

const rt_device_api& device_api() {
  static const rt_device_api api = {sizeof(rt_device_api),
                                    RT_DEVICE_API_VERSION,
                                    device_count,
                                    device_properties,
                                    device_open,
                                    device_close,
                                    allocate,
                                    release,
                                    stream_create,
                                    stream_destroy,
                                    stream_synchronize,
                                    copy,
                                    fill,
                                    event_create,
                                    event_destroy,
                                    event_record,
                                    event_wait,
                                    event_synchronize,
                                    event_query,
                                    event_elapsed,
                                    memory_info,
                                    utilisation};
  return api;
}

}  // namespace backends::cpu
