// The transport under Gloo's collectives: connections that door.h has made. Gloo's own transport
// is not used. It accepts whoever comes first to its ports, and an error that it meets in its I/O
// thread, such as a connection that is reset while it is accepted, ends the process: a port scan
// was enough.
#ifndef COLLECTIVES_GLOO_WIRES_H_
#define COLLECTIVES_GLOO_WIRES_H_

#include <gloo/transport/context.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "door.h"
#include "loop.h"
#include "wire.h"

namespace collectives::gloo {

// What a wait throws after interrupt().
struct Interrupted : std::exception {
  const char* what() const noexcept override { return "the wait was interrupted"; }
};

// Thread-safe. A buffer made here waits until its transfer is done, its connection is lost, or
// somebody calls interrupt(), and gives its memory back when it is destroyed, whatever has become
// of its transfers. The timeouts that Gloo passes to waits are ignored: they count for each segment
// of a collective.
class Wires final : public ::gloo::transport::Context {
 public:
  // Rank r is reached over sockets[r]; that of this rank itself is empty.
  Wires(std::shared_ptr<Loop> loop, int rank, std::vector<Socket> sockets);
  ~Wires() override { pairs_.clear(); }  // before the loop that they use

  std::unique_ptr<::gloo::transport::Pair>& createPair(
      int rank) override;  // throws: they are there
  std::unique_ptr<::gloo::transport::UnboundBuffer> createUnboundBuffer(void* pointer,
                                                                        size_t size) override;
  // A buffer that interrupt() leaves alone, and whose waits throw ::gloo::IoException when their
  // timeout has passed.
  std::unique_ptr<::gloo::transport::UnboundBuffer> make_lasting_buffer(void* pointer, size_t size);

  // All waits and transfers, present and future, throw Interrupted. Blocks for no longer than a
  // lock.
  void interrupt();
  // Closes all connections; what was written before still reaches its peer. Also after interrupt().
  void close();
  bool is_lost(int rank) { return wire(rank).is_lost(); }

  // How far this rank is, for the others who ask; see Wire::ask.
  void set_progress(int64_t progress) { progress_ = progress; }
  Wire& wire(int rank);

 private:
  class Buffer;

  const std::shared_ptr<Loop> loop_;
  std::atomic<bool> interrupted_ = false;
  std::atomic<int64_t> progress_ = 0;
  std::mutex buffers_mutex_;
  std::set<Buffer*> buffers_;  // those that live
};

}  // namespace collectives::gloo

#endif  // COLLECTIVES_GLOO_WIRES_H_
