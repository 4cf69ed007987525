// Compares a new use of memory with earlier ones, and words a race between two of them.
#include "plugins/validate/order.h"

#include "plugins/validate/blocks.h"

namespace plugins::validate {
namespace {

// The device that keeps the uses of the memory: a fallback device uses host memory of another.
DeviceObject& keeper_of(DeviceObject& device, const Range& range) {
  if (block_at(device, range.begin) != nullptr) return device;
  DeviceObject* const owner = owner_of(device.tracker(), range.begin);
  return owner != nullptr ? *owner : device;
}

[[noreturn]] void race(DeviceObject& device, const Range& range, bool writes, const Use& earlier,
                       const std::string& where) {
  device.findings().fault(
      Offender::kRuntime, where,
      std::string(writes ? "writes " : "reads ") + to_string(range) +
          ", and no event and no synchronisation orders that after: " + *earlier.what);
}

}  // namespace

void expect_not_in_flight(Tracker& tracker, const Range& range, bool writes,
                          const std::string& where) {
  for (const Flight& flight : tracker.flights) {
    if (!flight.received.overlaps(range) && !(writes && flight.sent.overlaps(range))) continue;
    tracker.findings.fault(Offender::kRuntime, where,
                           std::string(writes ? "writes " : "reads ") + to_string(range) +
                               " while a collective uses them: " + flight.what +
                               "; wait for its work first");
  }
}

Epoch begin_work(StreamObject& stream) {
  stream.clock.join(stream.tracker().host);
  stream.vouched = std::make_shared<bool>(false);
  return stream.clock.advance(stream.number);
}

void use(StreamObject& stream, const Range& range, bool writes, const Epoch& epoch,
         const std::string& where) {
  if (range.bytes == 0) return;
  DeviceObject& device = keeper_of(*stream.device, range);
  const auto what = std::make_shared<const std::string>(where);
  if (stream.capture != nullptr) {
    stream.capture->accesses.push_back({range, writes, what});
    return;
  }
  expect_not_in_flight(device.tracker(), range, writes, where);
  const auto earlier = device.history.add(range, writes, {epoch, what}, stream.clock);
  if (earlier) race(device, range, writes, *earlier, where);
}

void use_by_host(DeviceObject& device, const Range& range, bool writes, const std::string& where) {
  if (range.bytes == 0) return;
  expect_not_in_flight(device.tracker(), range, writes, where);
  const auto earlier = device.history.conflict(range, writes, device.tracker().host);
  if (earlier) race(device, range, writes, *earlier, where);
}

void expect_unused(DeviceObject& device, const Range& range, const std::string& where) {
  if (device.findings().failed()) return;  // what is freed then may be in any state
  use_by_host(device, range, true, where);
}

void expect_no_capture(DeviceObject& device, const char* call) {
  const std::thread::id thread = std::this_thread::get_id();
  const std::lock_guard lock(device.tracker().mutex);
  if (device.captures == 0) return;
  for (const auto& [handle, object] : device.tracker().objects) {
    if (object->kind != Kind::kStream || !object->alive) continue;
    const auto& stream = static_cast<const StreamObject&>(*object);
    if (stream.device == &device && stream.capture != nullptr && stream.capture->thread == thread)
      device.fault(Offender::kRuntime, call,
                   "this thread records the work of " + stream.name +
                       "; until the end of that it may not wait, query or allocate");
  }
}

}  // namespace plugins::validate
