// Gloo's transport with waits that can be ended. Gloo itself offers only a timeout per wait, and
// one that passes takes all connections down; every buffer made here waits until its transfer is
// done, its connection is lost, or somebody calls interrupt(). Gloo's own algorithms, which make
// their buffers through the context, get the same.
#ifndef COLLECTIVES_GLOO_WIRES_H_
#define COLLECTIVES_GLOO_WIRES_H_

#include <gloo/transport/context.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <set>

namespace collectives::gloo {

// What a wait throws after interrupt().
struct Interrupted : std::exception {
  const char* what() const noexcept override { return "the wait was interrupted"; }
};

// Thread-safe, as gloo's context is.
class Wires : public ::gloo::transport::Context {
 public:
  explicit Wires(std::shared_ptr<::gloo::transport::Context> inner);

  std::unique_ptr<::gloo::transport::Pair>& getPair(int rank) override;
  std::unique_ptr<::gloo::transport::Pair>& createPair(int rank) override;
  std::unique_ptr<::gloo::transport::UnboundBuffer> createUnboundBuffer(void* pointer,
                                                                        size_t size) override;

  // All waits and transfers, present and future, throw Interrupted. Blocks for no longer than a
  // lock.
  void interrupt();
  bool interrupted() const { return interrupted_; }

  // Closes all connections; what was written before still reaches its peer. Also after interrupt().
  // Takes up to 10 ms for each peer.
  void close();
  // Sends `word` to every rank that awaits it, also after interrupt(); does not wait.
  void say(int32_t word, uint64_t slot);

  // Whether the connection to `rank` is gone.
  bool is_lost(int rank);

 private:
  class Buffer;

  const std::shared_ptr<::gloo::transport::Context> inner_;
  std::atomic<bool> interrupted_ = false;
  std::mutex buffers_mutex_;
  std::set<Buffer*> buffers_;  // those that live
};

}  // namespace collectives::gloo

#endif  // COLLECTIVES_GLOO_WIRES_H_
