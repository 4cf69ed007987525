// Checks of the memory of a device.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "plugins/check/check.h"
#include "plugins/host/error.h"

namespace plugins::check {

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr int32_t kKinds[] = {RT_MEMORY_DEVICE, RT_MEMORY_PINNED_HOST};

const char* name_of(int32_t kind) {
  return kind == RT_MEMORY_DEVICE ? "device memory" : "pinned host memory";
}

std::string aligns_and_separates(Context& context) {
  const auto device = context.device();
  const uint64_t alignment = device->properties().alignment;
  for (const int32_t kind : kKinds) {
    std::vector<host::Memory> all;
    std::map<uintptr_t, uint64_t> ranges;
    for (const uint64_t wanted : {1, 3, 17, 256, 1000, 4096, 65537, 1 << 20}) {
      const uint64_t bytes = std::min(wanted, device->largest_buffer());
      all.push_back(device->allocate(bytes, kind));
      const auto address = reinterpret_cast<uintptr_t>(all.back().data());
      require(address % alignment == 0,
              fmt::format("{} bytes of {} lie at {:#x}, which is no multiple of the device's "
                          "alignment {}",
                          bytes, name_of(kind), address, alignment));
      ranges[address] = bytes;
    }
    for (auto it = ranges.begin(), next = std::next(it); next != ranges.end(); ++it, ++next) {
      require(it->first + it->second <= next->first,
              fmt::format("two allocations of {} overlap: {} bytes at {:#x} and {} at {:#x}",
                          name_of(kind), it->second, it->first, next->second, next->first));
    }
  }
  return "";
}

std::string gives_the_host_pinned_memory(Context& context) {
  const auto device = context.device();
  const host::Memory memory = device->allocate(4096, RT_MEMORY_PINNED_HOST);
  std::memset(memory.data(), 0x3C, memory.bytes());
  const auto* const bytes = static_cast<const unsigned char*>(memory.data());
  require(std::all_of(bytes, bytes + memory.bytes(), [](unsigned char b) { return b == 0x3C; }),
          "the host wrote into pinned host memory and reads other bytes from it");
  return "";
}

std::string lets_the_host_in(Context& context) {
  const auto device = context.device();
  if (!device->host_memory()) throw Skip("the device does not claim RT_DEVICE_HOST_MEMORY");
  const host::Memory memory = device->allocate(4096);
  std::memset(memory.data(), 0x3C, memory.bytes());
  host::Stream stream = device->create_stream();
  std::vector<unsigned char> copy(memory.bytes());
  stream.copy(copy.data(), memory.data(), copy.size());
  stream.synchronize();
  require(copy == std::vector<unsigned char>(copy.size(), 0x3C),
          "the host wrote into device memory, as RT_DEVICE_HOST_MEMORY allows, but a copy has "
          "other bytes");
  return "";
}

std::string refuses_too_much(Context& context) {
  const auto device = context.device();
  const uint64_t bytes = std::max<uint64_t>(device->properties().memory_bytes, kMiB) * 64;
  for (const int32_t kind : kKinds) {
    void* address = nullptr;
    rt_error error = host::make_error();
    const rt_device_api& api = context.device_api();
    const rt_status status = api.allocate(device->get(), bytes, kind, &address, &error);
    if (status == RT_OK) api.free(device->get(), address, kind);
    // The host's own memory may be larger than that of the device, or may be promised in advance.
    if (status == RT_OK && kind == RT_MEMORY_PINNED_HOST) continue;
    require(status == RT_ERROR_OUT_OF_MEMORY,
            fmt::format("{} bytes of {}, 64 times the memory of the device: the answer is {}; "
                        "expected RT_ERROR_OUT_OF_MEMORY, by which the search for the largest "
                        "batch knows it",
                        bytes, name_of(kind), host::status_name(status)));
    require(std::strpbrk(error.message, "0123456789") != nullptr,
            fmt::format("the message of RT_ERROR_OUT_OF_MEMORY is \"{}\"; expected the requested "
                        "and the free size in it",
                        error.message));
  }
  return "";
}

std::string gives_its_largest_buffer(Context& context) {
  const auto device = context.device();
  const uint64_t largest = device->properties().largest_buffer;
  if (largest == 0) throw Skip("the device names no largest buffer");
  const uint64_t bytes = std::min(largest, device->memory_info().free_bytes / 2);
  const host::Memory memory = device->allocate(bytes);
  host::Stream stream = device->create_stream();
  auto* const last = static_cast<std::byte*>(memory.data()) + bytes - 1;
  stream.fill(last, 0x3C, 1);
  unsigned char read = 0;
  stream.copy(&read, last, 1);
  stream.synchronize();
  require(read == 0x3C, fmt::format("the last of {} bytes does not hold what was written there; "
                                    "rt_device_properties.largest_buffer is {}",
                                    bytes, largest));
  return fmt::format("{} bytes", bytes);
}

std::string works_after_a_refusal(Context& context) {
  refuses_too_much(context);
  const auto device = context.device();
  const host::Memory memory = device->allocate(std::min(kMiB, device->largest_buffer()));
  host::Stream stream = device->create_stream();
  stream.fill(memory.data(), 1, memory.bytes());
  stream.synchronize();
  return "";
}

std::string counts_its_bytes(Context& context) {
  const auto device = context.device();
  const rt_memory_info before = device->memory_info();
  require(before.total_bytes > 0, "memory_info says that the device has 0 bytes");
  require(before.free_bytes <= before.total_bytes,
          fmt::format("memory_info says that {} of {} bytes are free", before.free_bytes,
                      before.total_bytes));
  const uint64_t bytes = std::min(8 * kMiB, device->largest_buffer());
  rt_memory_info during;
  {
    const host::Memory memory = device->allocate(bytes);
    during = device->memory_info();
  }
  const rt_memory_info after = device->memory_info();
  const uint64_t grown = during.allocated_bytes - before.allocated_bytes;
  require(during.allocated_bytes >= before.allocated_bytes && grown >= bytes &&
              grown <= bytes + 4 * kMiB,
          fmt::format("allocated_bytes was {}, and {} after {} bytes more were allocated",
                      before.allocated_bytes, during.allocated_bytes, bytes));
  require(after.allocated_bytes == before.allocated_bytes,
          fmt::format("allocated_bytes is {} after everything was freed, and was {} before",
                      after.allocated_bytes, before.allocated_bytes));
  return fmt::format("{} MiB, {} free", before.total_bytes / kMiB, before.free_bytes / kMiB);
}

// More than the device has, if nothing were given back; limited, so that the check ends.
std::string gives_memory_back(Context& context) {
  const auto device = context.device();
  const uint64_t free = device->memory_info().free_bytes;
  const uint64_t bytes =
      std::min({std::max<uint64_t>(free / 4, 4096), uint64_t{1} << 30, device->largest_buffer()});
  const uint64_t rounds = std::min<uint64_t>(2 * free / bytes + 2, 64);
  for (uint64_t i = 0; i < rounds; ++i) device->allocate(bytes);
  const uint64_t left = device->memory_info().free_bytes;
  require(left + bytes / 2 >= std::min(free, bytes * rounds) / 2,
          fmt::format("{} bytes were free; {} times {} bytes were allocated and freed, and {} are "
                      "free now",
                      free, rounds, bytes, left));
  return "";
}

std::string tells_its_load(Context& context) {
  const auto device = context.device();
  if (context.device_api().utilisation == nullptr) throw Skip("the plugin does not tell the load");
  const rt_utilisation load = device->utilisation();
  for (const int32_t percent : {load.compute_percent, load.memory_percent}) {
    require(
        percent >= -1 && percent <= 100,
        fmt::format("utilisation says {} percent; expected 0 to 100, or -1 for unknown", percent));
  }
  require(load.power_milliwatts >= -1,
          fmt::format("utilisation says {} milliwatts; expected -1 for unknown",
                      load.power_milliwatts));
  return "";
}

}  // namespace

void add_memory_checks(std::vector<Check>& checks) {
  const auto add = [&](const char* name, std::string (*body)(Context&)) {
    checks.push_back({"memory", name, body});
  };
  add("is aligned as the properties say, and no two buffers overlap", aligns_and_separates);
  add("of the kind pinned host is the host's to read and write", gives_the_host_pinned_memory);
  add("of the device is the host's to read and write, if claimed", lets_the_host_in);
  add("that is too large is refused with RT_ERROR_OUT_OF_MEMORY and sizes", refuses_too_much);
  add("works after such a refusal", works_after_a_refusal);
  add("of the largest buffer that the properties name is given", gives_its_largest_buffer);
  add("is counted by memory_info", counts_its_bytes);
  add("that was freed can be allocated again", gives_memory_back);
  add("and load are told in percent, if at all", tells_its_load);
}

}  // namespace plugins::check
