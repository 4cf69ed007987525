#include "runtime/exec/upload.h"

#include <algorithm>
#include <cstring>

namespace runtime::exec {

namespace {

constexpr uint64_t kAlignment = 64;  // of each copy's source
constexpr uint64_t kSmallest = 64 << 10;

}  // namespace

Upload::Upload(plugins::host::Stream& stream) : stream_(stream) {
  const std::shared_ptr<plugins::host::Device>& device = stream.device();
  if (device->host_memory()) return;
  for (auto& pinned : pinned_) {
    pinned = std::make_unique<Pinned>(Pinned{{}, 0, device->create_event()});
  }
}

void Upload::begin_step() {
  ++step_;
  if (Pinned* const pinned = pinned_[step_ % pinned_.size()].get()) {
    pinned->copied.synchronize();
    pinned->used = 0;
  }
}

void Upload::end_step() {
  if (Pinned* const pinned = pinned_[step_ % pinned_.size()].get()) pinned->copied.record(stream_);
}

// Copies out of the old memory have to be over.
void Upload::grow(Pinned& pinned, uint64_t bytes) {
  stream_.synchronize();
  const uint64_t size = std::max({kSmallest, 2 * pinned.memory.bytes(), 2 * bytes});
  pinned.memory = stream_.device()->allocate(size, RT_MEMORY_PINNED_HOST);
  pinned.used = 0;
}

void Upload::copy(void* to, const void* from, uint64_t bytes) {
  Pinned* const pinned = pinned_[step_ % pinned_.size()].get();
  if (pinned == nullptr || bytes == 0) return stream_.copy(to, from, bytes);
  if (pinned->used + bytes > pinned->memory.bytes()) grow(*pinned, bytes);
  std::byte* const at = static_cast<std::byte*>(pinned->memory.data()) + pinned->used;
  std::memcpy(at, from, bytes);
  stream_.copy(to, at, bytes);
  pinned->used += (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace runtime::exec
