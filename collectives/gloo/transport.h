// The transport under Gloo's collectives, over connections that
// collectives/mesh/listener.h has made. It replaces Gloo's
// own transport, which accepts whatever connects first to its ports. There, an error in the I/O
// thread, such as a connection that is reset while it is accepted, ends the process: a port scan
// was enough.
#ifndef COLLECTIVES_GLOO_TRANSPORT_H_
#define COLLECTIVES_GLOO_TRANSPORT_H_

#include <gloo/transport/context.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "collectives/mesh/listener.h"
#include "collectives/mesh/liveness_check.h"
#include "collectives/mesh/peer_memory.h"
#include "collectives/mesh/progress_thread.h"
#include "collectives/shared_memory/host_collectives.h"
#include "connection.h"

namespace collectives::gloo {

using shared_memory::Interrupted;  // what waits throw after interrupt()

// Thread-safe. A buffer made here waits until its transfer is done, its connection is lost, or
// interrupt() is called. When it is destroyed, its memory is not touched any more, whatever the
// state of its transfers. The timeouts that Gloo passes to waits are ignored, because they apply to
// each segment of a collective.
class Transport final : public ::gloo::transport::Context, public mesh::LivenessProbe {
 public:
  // sockets[r] connects this rank with rank r, and memories[r] is that rank's memory; those of this
  // rank itself are not used. `own` is the token of this rank.
  Transport(std::shared_ptr<mesh::ProgressThread> progress_thread, int rank,
            std::vector<mesh::Socket> sockets, const std::vector<mesh::PeerMemory>& memories,
            mesh::Token& own);
  ~Transport() override { pairs_.clear(); }  // before the thread that they use

  std::unique_ptr<::gloo::transport::Pair>& createPair(int rank) override;  // throws: all exist
  std::unique_ptr<::gloo::transport::UnboundBuffer> createUnboundBuffer(void* pointer,
                                                                        size_t size) override;
  // A buffer that interrupt() does not affect, and whose waits throw ::gloo::IoException when their
  // timeout has passed.
  std::unique_ptr<::gloo::transport::UnboundBuffer> make_lasting_buffer(void* pointer, size_t size);

  // Makes all waits and transfers, present and future, throw Interrupted. Blocks only for a lock.
  void interrupt();
  // Closes all connections; data that were written before still reach their peer. May be called
  // after interrupt().
  void close();
  bool is_lost(int rank) { return connection(rank).is_lost(); }

  // See Connection::ask().
  void set_progress(int64_t progress) override { progress_ = progress; }
  void ask(int peer) override { connection(peer).ask(); }
  std::optional<int64_t> answer(int peer) override { return connection(peer).answer(); }
  Connection& connection(int rank);

 private:
  class Buffer;

  const std::shared_ptr<mesh::ProgressThread> progress_thread_;
  std::atomic<bool> interrupted_ = false;
  std::atomic<int64_t> progress_ = 0;
  std::mutex buffers_mutex_;
  std::set<Buffer*> buffers_;  // all buffers that exist
};

}  // namespace collectives::gloo

#endif  // COLLECTIVES_GLOO_TRANSPORT_H_
