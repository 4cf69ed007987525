// Threads that block in the place of the caller: each lane carries out its tasks in order and
// sleeps while it has none.
#ifndef COLLECTIVES_GLOO_LANE_H_
#define COLLECTIVES_GLOO_LANE_H_

#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "rt/sdk/error.h"

namespace collectives::gloo {

// How a task ended, if it did. Thread-safe.
class Completion {
 public:
  void finish(std::optional<rt::sdk::Error> error);  // nullopt: well
  // False: not before the deadline (time_point::min(): does not wait). Throws the task's error.
  bool wait(std::chrono::steady_clock::time_point deadline);

 private:
  std::mutex mutex_;
  std::condition_variable finished_;
  bool done_ = false;
  std::optional<rt::sdk::Error> error_;
};

class Lane {
 public:
  using Task = std::function<void()>;  // must not throw

  Lane();
  // Waits for the tasks that were enqueued.
  ~Lane();
  void enqueue(Task task);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool ending_ = false;
  std::thread thread_;
};

// Blocks signals of this thread, and of the threads it starts, while it lives. kAll is for starting
// threads: signals belong to those of the host. kPipe is for calls of Gloo, which writes to sockets
// without MSG_NOSIGNAL; a SIGPIPE that arose meanwhile is dropped.
class BlockedSignals {
 public:
  enum Which { kAll, kPipe };
  explicit BlockedSignals(Which which);
  ~BlockedSignals();
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace collectives::gloo

#endif  // COLLECTIVES_GLOO_LANE_H_
