// The thread that does the input and output of all connections of a rank.
#ifndef COLLECTIVES_MESH_PROGRESS_THREAD_H_
#define COLLECTIVES_MESH_PROGRESS_THREAD_H_

#include <mutex>
#include <set>
#include <thread>

#include "collectives/mesh/socket.h"

namespace collectives::mesh {

// Thread-safe. The thread sleeps while nothing happens and receives no signals.
class ProgressThread {
 public:
  // on_events() is called in this thread, for one handler at a time. It must not throw, and
  // must not call add() or remove().
  class Handler {
   public:
    virtual void on_events() = 0;

   protected:
    ~Handler() = default;
  };

  ProgressThread();
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  // From now on the handler is called whenever `file` can be read.
  void add(int file, Handler& handler);
  // Sets whether the handler is also called when `file` can be written.
  void want_output(int file, Handler& handler, bool wanted);
  // Stops the calls for `file`; the file stays open.
  void mute(int file);
  // After remove() the handler is not running and is not called any more. The caller must not hold
  // a lock that the handler waits for.
  void remove(int file, Handler& handler);

 private:
  void run();

  const Socket poll_, wake_;
  std::mutex mutex_;  // held while a handler runs
  std::set<Handler*> handlers_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace collectives::mesh

#endif  // COLLECTIVES_MESH_PROGRESS_THREAD_H_
