// The thread that does the input and output of all connections of a rank.
#ifndef COLLECTIVES_GLOO_LOOP_H_
#define COLLECTIVES_GLOO_LOOP_H_

#include <mutex>
#include <set>
#include <thread>

#include "socket.h"

namespace collectives::gloo {

// Thread-safe. Sleeps while nothing happens; takes no signals.
class Loop {
 public:
  // Called in the loop's thread, one at a time. Must not throw, nor call add() or remove().
  class Handler {
   public:
    virtual void on_events() = 0;

   protected:
    ~Handler() = default;
  };

  Loop();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // From now on the handler is told whenever `file` can be read.
  void add(int file, Handler& handler);
  // Whether it is also told when `file` can be written.
  void want_output(int file, Handler& handler, bool wanted);
  // Tells the handler no more; the file is still open.
  void mute(int file);
  // Afterwards the handler is not called, and does not run, any more. The caller must hold nothing
  // that the handler waits for.
  void remove(int file, Handler& handler);

 private:
  void run();

  const Socket poll_, wake_;
  std::mutex mutex_;  // held while handlers run
  std::set<Handler*> handlers_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace collectives::gloo

#endif  // COLLECTIVES_GLOO_LOOP_H_
