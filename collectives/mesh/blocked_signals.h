// Keeps signals from a plugin's threads.
#ifndef COLLECTIVES_MESH_BLOCKED_SIGNALS_H_
#define COLLECTIVES_MESH_BLOCKED_SIGNALS_H_

#include <signal.h>

namespace collectives::mesh {

// Blocks all signals in this thread while the object lives, and in threads started meanwhile:
// signals belong to the threads of the host.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace collectives::mesh

#endif  // COLLECTIVES_MESH_BLOCKED_SIGNALS_H_
