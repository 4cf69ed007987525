// Implements Gloo's transport (context, pairs, buffers) over the connections of one rank.
#include "transport.h"

#include <gloo/common/error.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>

namespace collectives::gloo {

class Transport::Buffer final : public ::gloo::transport::UnboundBuffer, private TransferOwner {
 public:
  Buffer(Transport& transport, void* pointer, size_t size, bool lasts)
      : UnboundBuffer(pointer, size), transport_(transport), lasts_(lasts) {
    const std::lock_guard lock(transport_.buffers_mutex_);
    transport_.buffers_.insert(this);
  }
  ~Buffer() override {
    if (in_progress()) {
      for (int peer = 0; peer < transport_.size; ++peer) {
        if (peer != transport_.rank) transport_.connection(peer).forget(*this);
      }
    }
    const std::lock_guard lock(transport_.buffers_mutex_);
    transport_.buffers_.erase(this);
  }

  bool waitRecv(int* rank, std::chrono::milliseconds timeout) override {
    return wait(received_, rank, timeout);
  }
  bool waitSend(int* rank, std::chrono::milliseconds timeout) override {
    return wait(sent_, rank, timeout);
  }
  void abortWaitRecv() override { wake(); }
  void abortWaitSend() override { wake(); }

  void send(int rank, uint64_t slot, size_t offset, size_t bytes) override {
    begin();
    transport_.connection(rank).send(*this, slot, at(offset), size_of(offset, bytes));
  }
  void recv(int rank, uint64_t slot, size_t offset, size_t bytes) override {
    begin();
    transport_.connection(rank).receive(*this, slot, at(offset), size_of(offset, bytes));
  }
  void recv(std::vector<int>, uint64_t, size_t, size_t) override {
    throw ::gloo::InvalidOperationException("Transport: a receive names the rank that sends");
  }

  void wake() {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  }

 private:
  struct Count {
    int done = 0, last_peer = -1;
  };

  void sent(int peer) override { finish(sent_, peer); }
  void received(int peer) override { finish(received_, peer); }
  void failed(const std::exception_ptr& why) override {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = why;
    changed_.notify_all();
  }

  // Notifies with the lock held, because a waiting thread may destroy this object as soon as the
  // lock is released.
  void finish(Count& count, int peer) {
    const std::lock_guard lock(mutex_);
    --begun_;
    ++count.done;
    count.last_peer = peer;
    changed_.notify_all();
  }

  bool interrupted() const { return !lasts_ && transport_.interrupted_; }

  void begin() {
    if (interrupted()) throw Interrupted();
    const std::lock_guard lock(mutex_);
    ++begun_;
  }

  bool in_progress() {
    const std::lock_guard lock(mutex_);
    return begun_ > 0;
  }

  bool wait(Count& count, int* rank, std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    const auto over = [&] { return interrupted() || count.done > 0 || failure_; };
    if (!lasts_) {
      changed_.wait(lock, over);
    } else if (!changed_.wait_for(lock, timeout, over)) {
      throw ::gloo::IoException("it took longer than " + std::to_string(timeout.count()) + " ms");
    }
    if (interrupted()) throw Interrupted();
    if (count.done == 0) std::rethrow_exception(failure_);
    --count.done;
    if (rank != nullptr) *rank = count.last_peer;
    return true;
  }

  char* at(size_t offset) const { return static_cast<char*>(ptr) + offset; }
  size_t size_of(size_t offset, size_t bytes) const {
    if (bytes == kUnspecifiedByteCount) bytes = size - std::min(offset, size);
    if (offset <= size && bytes <= size - offset) return bytes;
    throw ::gloo::InvalidOperationException("Transport: a transfer beyond the end of its buffer");
  }

  Transport& transport_;
  const bool lasts_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  int begun_ = 0;  // transfers that a connection may still know
  Count sent_, received_;
  std::exception_ptr failure_;  // the failure of any transfer
};

Transport::Transport(std::shared_ptr<mesh::ProgressThread> progress_thread, int rank,
                     std::vector<mesh::Socket> sockets,
                     const std::vector<mesh::PeerMemory>& memories, mesh::Token& own)
    : Context(rank, static_cast<int>(sockets.size())),
      progress_thread_(std::move(progress_thread)) {
  for (int peer = 0; peer < size; ++peer) {
    const auto place = static_cast<std::size_t>(peer);
    if (peer != rank)
      pairs_[place] = std::make_unique<Connection>(*progress_thread_, std::move(sockets[place]),
                                                   peer, progress_, memories[place], own);
  }
}

Connection& Transport::connection(int rank) {
  return static_cast<Connection&>(*pairs_[static_cast<std::size_t>(rank)]);
}

std::unique_ptr<::gloo::transport::Pair>& Transport::createPair(int) {
  throw ::gloo::InvalidOperationException("Transport: all connections are there");
}

std::unique_ptr<::gloo::transport::UnboundBuffer> Transport::createUnboundBuffer(void* pointer,
                                                                                 size_t size) {
  return std::make_unique<Buffer>(*this, pointer, size, false);
}

std::unique_ptr<::gloo::transport::UnboundBuffer> Transport::make_lasting_buffer(void* pointer,
                                                                                 size_t size) {
  return std::make_unique<Buffer>(*this, pointer, size, true);
}

void Transport::interrupt() {
  const std::lock_guard lock(buffers_mutex_);
  interrupted_ = true;
  for (Buffer* buffer : buffers_) buffer->wake();
}

void Transport::close() {
  for (int peer = 0; peer < size; ++peer) {
    if (peer != rank) connection(peer).close();
  }
}

}  // namespace collectives::gloo
