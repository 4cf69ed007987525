// Checks of copies, fills and the order of one stream.
#include <fmt/format.h>

#include <cstring>
#include <optional>

#include "plugins/check/busy.h"
#include "plugins/check/check.h"

namespace plugins::check {

namespace {

using namespace std::chrono_literals;
using Octets = std::vector<unsigned char>;

Octets pattern(size_t bytes, unsigned seed) {
  Octets made(bytes);
  uint32_t state = seed * 2654435761U + 1;
  for (unsigned char& byte : made) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<unsigned char>(state >> 24);
  }
  return made;
}

void expect_equal(const Octets& actual, const Octets& expected, const std::string& what) {
  for (size_t i = 0; i < expected.size(); ++i) {
    require(actual[i] == expected[i],
            fmt::format("{}: byte {} of {} is {:#04x}, expected {:#04x}", what, i, expected.size(),
                        actual[i], expected[i]));
  }
}

// A place that a copy can read or write: memory of a kind, or pageable memory.
struct MemoryPlace {
  const char* name;
  int32_t kind;  // RT_MEMORY_*, or kPageable
  static constexpr int32_t kPageable = -1;
};
constexpr MemoryPlace kPlaces[] = {{"device memory", RT_MEMORY_DEVICE},
                                   {"pinned host memory", RT_MEMORY_PINNED_HOST},
                                   {"pageable host memory", MemoryPlace::kPageable}};

class Buffer {
 public:
  Buffer(const std::shared_ptr<host::Device>& device, const MemoryPlace& place, size_t bytes) {
    if (place.kind == MemoryPlace::kPageable) {
      pageable_.resize(bytes);
    } else {
      memory_ = device->allocate(bytes, place.kind);
    }
  }
  unsigned char* data() {
    return memory_ ? static_cast<unsigned char*>(memory_.data()) : pageable_.data();
  }

 private:
  host::Memory memory_;
  Octets pageable_;
};

// Copies part of a buffer from one place to the other, at an odd offset, and looks also at the
// bytes around it.
void copy_between(const std::shared_ptr<host::Device>& device, const MemoryPlace& from,
                  const MemoryPlace& to, size_t bytes) {
  constexpr size_t kBefore = 3, kBehind = 5;
  const size_t whole = kBefore + bytes + kBehind;
  Buffer source(device, from, whole), destination(device, to, whole);
  host::Stream stream = device->create_stream();
  const Octets data = pattern(whole, 1), around = pattern(whole, 2);
  Octets result(whole);
  stream.copy(source.data(), data.data(), whole);
  stream.copy(destination.data(), around.data(), whole);
  stream.synchronize();
  stream.copy(destination.data() + kBefore, source.data() + kBefore, bytes);
  stream.synchronize();
  stream.copy(result.data(), destination.data(), whole);
  stream.synchronize();
  Octets expected = around;
  std::memcpy(expected.data() + kBefore, data.data() + kBefore, bytes);
  expect_equal(result, expected,
               fmt::format("a copy of {} bytes from {} to {}, both at offset {}", bytes, from.name,
                           to.name, kBefore));
}

std::string copies_everywhere(Context& context) {
  const auto device = context.device();
  for (const MemoryPlace& from : kPlaces) {
    for (const MemoryPlace& to : kPlaces) {
      for (const size_t bytes : {1, 2, 7, 64, 1001, 65536, 300007})
        copy_between(device, from, to, bytes);
    }
  }
  return "";
}

std::string copies_nothing(Context& context) {
  const auto device = context.device();
  const host::Memory memory = device->allocate(64);
  host::Stream stream = device->create_stream();
  Octets data(64, 7);
  stream.fill(memory.data(), 1, 64);
  stream.copy(memory.data(), data.data(), 0);
  stream.fill(memory.data(), 9, 0);
  stream.synchronize();
  stream.copy(data.data(), memory.data(), 64);
  stream.synchronize();
  expect_equal(data, Octets(64, 1), "a copy and a fill of 0 bytes");
  return "";
}

std::string fills_every_value(Context& context) {
  const auto device = context.device();
  constexpr size_t kBytes = 1003;
  const host::Memory memory = device->allocate(kBytes);
  host::Stream stream = device->create_stream();
  for (const int value : {0, 1, 0x7F, 0x80, 0xA5, 0xFF}) {
    Octets expected(kBytes, 0x11), result(kBytes);
    std::memset(expected.data() + 1, value, kBytes - 3);
    stream.fill(memory.data(), 0x11, kBytes);
    stream.fill(static_cast<std::byte*>(memory.data()) + 1, value, kBytes - 3);
    stream.copy(result.data(), memory.data(), kBytes);
    stream.synchronize();
    expect_equal(result, expected, fmt::format("a fill with {:#04x} from byte 1", value));
  }
  return "";
}

std::string keeps_the_order(Context& context) {
  const auto device = context.device();
  constexpr size_t kBytes = 4096;
  const host::Memory a = device->allocate(kBytes), b = device->allocate(kBytes);
  host::Stream stream = device->create_stream();
  Octets result(kBytes);
  for (int i = 0; i < 200; ++i) {
    stream.fill(a.data(), i & 0xFF, kBytes);
    stream.copy(b.data(), a.data(), kBytes);
    stream.fill(a.data(), ~i & 0xFF, kBytes);
  }
  stream.copy(result.data(), b.data(), kBytes);
  stream.synchronize();
  expect_equal(result, Octets(kBytes, 199), "fills and copies in turn on one stream");
  return "";
}

// For inline devices, too: with nothing to keep them busy.
std::optional<Busy> busy_if_queued(const std::shared_ptr<host::Device>& device) {
  return device->is_inline() ? std::nullopt : std::optional<Busy>(std::in_place, device);
}

std::string reads_pageable_sources_at_once(Context& context) {
  const auto device = context.device();
  std::optional<Busy> busy = busy_if_queued(device);
  host::Stream stream = device->create_stream();
  for (const uint64_t wanted : {100, 70001, 3 << 20}) {
    const uint64_t bytes = std::min(wanted, device->largest_buffer());
    const host::Memory memory = device->allocate(bytes);
    Octets source = pattern(bytes, 3), result(bytes);
    const Octets expected = source;
    if (busy) busy->queue(stream, 50ms);
    stream.copy(memory.data(), source.data(), bytes);
    std::memset(source.data(), 0xEE, bytes);
    stream.synchronize();
    stream.copy(result.data(), memory.data(), bytes);
    stream.synchronize();
    expect_equal(
        result, expected,
        fmt::format("a copy of {} bytes from pageable host memory, which was written again "
                    "after the call had returned",
                    bytes));
  }
  return "";
}

std::string stream_synchronizes(Context& context) {
  const auto device = context.device();
  Busy busy(device);
  constexpr size_t kBytes = 4096;
  const host::Memory memory = device->allocate(kBytes),
                     pinned = device->allocate(kBytes, RT_MEMORY_PINNED_HOST);
  host::Stream stream = device->create_stream();
  for (int round = 1; round <= 3; ++round) {
    std::memset(pinned.data(), 0, kBytes);
    busy.queue(stream, 50ms);
    stream.fill(memory.data(), round, kBytes);
    stream.copy(pinned.data(), memory.data(), kBytes);
    stream.synchronize();
    const auto* const now = static_cast<const unsigned char*>(pinned.data());
    expect_equal(Octets(now, now + kBytes), Octets(kBytes, static_cast<unsigned char>(round)),
                 "pinned host memory after stream_synchronize, behind 50 ms of work");
  }
  return "";
}

std::string finishes_before_it_is_destroyed(Context& context) {
  const auto device = context.device();
  Busy busy(device);
  constexpr size_t kBytes = 4096;
  const host::Memory pinned = device->allocate(kBytes, RT_MEMORY_PINNED_HOST),
                     memory = device->allocate(kBytes);
  std::memset(pinned.data(), 0, kBytes);
  {
    host::Stream stream = device->create_stream();
    busy.queue(stream, 50ms);
    stream.fill(memory.data(), 5, kBytes);
    stream.copy(pinned.data(), memory.data(), kBytes);
  }
  const auto* const now = static_cast<const unsigned char*>(pinned.data());
  expect_equal(Octets(now, now + kBytes), Octets(kBytes, 5),
               "pinned host memory after stream_destroy, which waits for queued work");
  return "";
}

std::string returns_before_the_work_has_run(Context& context) {
  const auto device = context.device();
  Busy busy(device);
  const host::Memory memory = device->allocate(4096);
  host::Stream stream = device->create_stream();
  const auto begin = std::chrono::steady_clock::now();
  busy.queue(stream, 300ms);
  stream.fill(memory.data(), 1, 4096);
  const auto queued = std::chrono::steady_clock::now() - begin;
  stream.synchronize();
  const auto whole = std::chrono::steady_clock::now() - begin;
  require(queued < whole / 2,
          fmt::format("copies and a fill took {:.0f} ms to queue and {:.0f} ms to run; expected "
                      "calls that do not wait, or the flag RT_DEVICE_INLINE",
                      queued / 1.0ms, whole / 1.0ms));
  return "";
}

}  // namespace

void add_copy_checks(std::vector<Check>& checks) {
  const auto add = [&](const char* name, std::string (*body)(Context&)) {
    checks.push_back({"streams", name, body});
  };
  add("copy between all kinds of memory, of any size and at any offset", copies_everywhere);
  add("copy and fill 0 bytes", copies_nothing);
  add("fill with every value of a byte", fills_every_value);
  add("run their work in its order", keeps_the_order);
  add("read a pageable source before the call returns", reads_pageable_sources_at_once);
  add("have run all work when they are synchronised", stream_synchronizes);
  add("run all work before they are destroyed", finishes_before_it_is_destroyed);
  add("queue work without waiting for it", returns_before_the_work_has_run);
}

}  // namespace plugins::check
