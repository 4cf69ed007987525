#include "wires.h"

#include <gloo/common/error.h>

#include <chrono>

namespace collectives::gloo {
namespace {

constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 365);
constexpr uint64_t kProbeSlot = uint64_t{0x50} << 56;  // nobody sends here

}  // namespace

class Wires::Buffer : public ::gloo::transport::UnboundBuffer {
 public:
  Buffer(Wires& wires, std::unique_ptr<UnboundBuffer> inner)
      : UnboundBuffer(inner->ptr, inner->size), wires_(wires), inner_(std::move(inner)) {
    const std::lock_guard lock(wires_.buffers_mutex_);
    wires_.buffers_.insert(this);
  }
  ~Buffer() override {
    const std::lock_guard lock(wires_.buffers_mutex_);
    wires_.buffers_.erase(this);
  }

  bool waitRecv(int* rank, std::chrono::milliseconds) override {
    check();
    if (!inner_->waitRecv(rank, kForever)) throw Interrupted();
    return true;
  }
  bool waitSend(int* rank, std::chrono::milliseconds) override {
    check();
    if (!inner_->waitSend(rank, kForever)) throw Interrupted();
    return true;
  }
  void abortWaitRecv() override { inner_->abortWaitRecv(); }
  void abortWaitSend() override { inner_->abortWaitSend(); }

  void send(int rank, uint64_t slot, size_t offset, size_t bytes) override {
    check();
    inner_->send(rank, slot, offset, bytes);
  }
  void recv(int rank, uint64_t slot, size_t offset, size_t bytes) override {
    check();
    inner_->recv(rank, slot, offset, bytes);
  }
  void recv(std::vector<int> ranks, uint64_t slot, size_t offset, size_t bytes) override {
    check();
    inner_->recv(std::move(ranks), slot, offset, bytes);
  }

 private:
  void check() const {
    if (wires_.interrupted()) throw Interrupted();
  }

  Wires& wires_;
  const std::unique_ptr<UnboundBuffer> inner_;
};

Wires::Wires(std::shared_ptr<::gloo::transport::Context> inner)
    : Context(inner->rank, inner->size), inner_(std::move(inner)) {}

std::unique_ptr<::gloo::transport::Pair>& Wires::getPair(int rank) { return inner_->getPair(rank); }

std::unique_ptr<::gloo::transport::Pair>& Wires::createPair(int rank) {
  return inner_->createPair(rank);
}

std::unique_ptr<::gloo::transport::UnboundBuffer> Wires::createUnboundBuffer(void* pointer,
                                                                             size_t size) {
  return std::make_unique<Buffer>(*this, inner_->createUnboundBuffer(pointer, size));
}

void Wires::interrupt() {
  const std::lock_guard lock(buffers_mutex_);
  interrupted_ = true;
  for (Buffer* buffer : buffers_) {
    buffer->abortWaitRecv();
    buffer->abortWaitSend();
  }
}

// Not Pair::close, which throws away what is still to be sent: a wait that times out takes down all
// connections.
void Wires::close() {
  const auto nothing = inner_->createUnboundBuffer(nullptr, 0);
  try {
    nothing->waitRecv(std::chrono::milliseconds(0));
  } catch (const ::gloo::IoException&) {
  }
}

void Wires::say(int32_t word, uint64_t slot) {
  const auto buffer = inner_->createUnboundBuffer(&word, sizeof(word));
  for (int peer = 0; peer < size; ++peer) {
    try {
      if (peer != rank) buffer->send(peer, slot, 0, sizeof(word));
    } catch (const ::gloo::Exception&) {  // it is gone
    }
  }
}

// A lost connection refuses every transfer.
bool Wires::is_lost(int rank) {
  const auto nothing = inner_->createUnboundBuffer(nullptr, 0);
  try {
    nothing->recv(rank, kProbeSlot);
    return false;
  } catch (const ::gloo::Exception&) {
    return true;
  }
}

}  // namespace collectives::gloo
