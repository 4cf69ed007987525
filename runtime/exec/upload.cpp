// Gathers a step's inputs in pinned memory, one slot after the other, and sends them on a stream of
// its own.
#include "runtime/exec/upload.h"

#include <cstring>

#include "runtime/error.h"

namespace runtime::exec {

namespace {

// Rounds up to whole pages, so that a step whose inputs are slightly larger than an earlier step's
// can reuse its buffers.
uint64_t capacity(uint64_t bytes) {
  constexpr uint64_t kPage = 4096;
  return (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace

Upload::Upload(plugins::host::Stream& stream) : stream_(stream) {
  const std::shared_ptr<plugins::host::Device>& device = stream.device();
  if (device->host_memory()) return;
  sending_.emplace(device);
  for (size_t i = 0; i < kInFlight; ++i)
    slots_.push_back({{}, {}, device->create_event(), device->create_event(), {}, 0});
}

uint64_t Upload::device_bytes(const plugins::host::Device& device, uint64_t step_bytes) {
  const bool direct = device.host_memory() || capacity(step_bytes) > device.largest_buffer();
  return direct ? 0 : kInFlight * capacity(step_bytes);
}

void Upload::begin_step(uint64_t bytes) {
  too_large_ = capacity(bytes) > stream_.device()->largest_buffer();
  if (!gathers()) return;
  ++step_;
  Slot& s = slot();
  s.arrived.synchronize();
  s.copies.clear();
  s.used = 0;
  if (s.pinned.bytes() >= bytes) return;
  s.taken.synchronize();
  s.sent = plugins::host::Memory();  // freed first, because both together may not fit
  s.pinned = stream_.device()->allocate(capacity(bytes), RT_MEMORY_PINNED_HOST);
  s.sent = stream_.device()->allocate(capacity(bytes));
}

void Upload::copy(void* to, const void* from, uint64_t bytes) {
  if (!gathers()) return stream_.copy(to, from, bytes);
  if (bytes == 0) return;
  Slot& s = slot();
  if (s.used + bytes > s.pinned.bytes())
    throw InternalError("a step copies more bytes than it announced when it began");
  std::memcpy(static_cast<std::byte*>(s.pinned.data()) + s.used, from, bytes);
  s.copies.push_back({to, s.used, bytes});
  s.used += rounded(bytes);
}

void Upload::end_step(SpanRecorder* spans) {
  if (!gathers() || slot().copies.empty()) return;
  Slot& s = slot();
  s.taken.wait(*sending_);
  const SpanRecorder::Mark begin = spans == nullptr ? 0 : spans->mark(*sending_);
  sending_->copy(s.sent.data(), s.pinned.data(), s.used);
  if (spans != nullptr) {
    Span span;
    span.kind = SpanKind::kTransfer;
    spans->add(span, begin, spans->mark(*sending_));
  }
  s.arrived.record(*sending_);
  s.arrived.wait(stream_);
  for (const Copy& c : s.copies)
    stream_.copy(c.to, static_cast<std::byte*>(s.sent.data()) + c.offset, c.bytes);
  s.taken.record(stream_);
}

}  // namespace runtime::exec
