// Measures how long copies take, and queues as many as fill the time that is asked for.
#include "plugins/check/busy.h"

#include <algorithm>

#include "plugins/check/context.h"

namespace plugins::check {

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kMostBytes = uint64_t{256} << 20;
constexpr int kMostCopies = 4000;  // a device that does not wait would measure no time

uint64_t buffer_bytes(host::Device& device) {
  const uint64_t free = std::min(device.memory_info().free_bytes, device.largest_buffer());
  return std::max<uint64_t>(std::min(kMostBytes, free / 64) / 2 * 2, 2);
}

}  // namespace

Busy::Busy(const std::shared_ptr<host::Device>& device) {
  if (device->is_inline()) throw Skip("the device runs its work in the calling thread");
  memory_ = device->allocate(buffer_bytes(*device));
  host::Stream stream = device->create_stream();
  stream.fill(memory_.data(), 0, memory_.bytes());
  copy(stream);
  stream.synchronize();
  constexpr int kCopies = 8;
  const auto begin = Clock::now();
  for (int i = 0; i < kCopies; ++i) copy(stream);
  stream.synchronize();
  one_ = std::max<std::chrono::nanoseconds>((Clock::now() - begin) / kCopies,
                                            std::chrono::microseconds(2));
}

void Busy::queue(host::Stream& stream, std::chrono::milliseconds time) {
  const auto copies = std::clamp<int64_t>(std::chrono::nanoseconds(time) / one_, 1, kMostCopies);
  for (int64_t i = 0; i < copies; ++i) copy(stream);
}

void Busy::copy(host::Stream& stream) {
  const uint64_t half = memory_.bytes() / 2;
  auto* const begin = static_cast<std::byte*>(memory_.data());
  stream.copy(begin + half, begin, half);
}

int first_byte(host::Stream& stream, const host::Memory& memory) {
  unsigned char byte = 0;
  stream.copy(&byte, memory.data(), 1);
  stream.synchronize();
  return byte;
}

}  // namespace plugins::check
