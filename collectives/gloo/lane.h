// Threads that block in place of the caller. A lane carries out its tasks in order and sleeps while
// it has none.
#ifndef COLLECTIVES_GLOO_LANE_H_
#define COLLECTIVES_GLOO_LANE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "collectives/shared_memory/host_collectives.h"
#include "rt/sdk/error.h"

namespace collectives::gloo {

// The outcome of a task. Thread-safe but for shares().
class Completion {
 public:
  using Shared = std::shared_ptr<shared_memory::HostCollectives::Operation>;

  // Sets the outcome; nullopt: success. Does nothing if it is set already. Before it is set,
  // `unfinished` becomes less by 1: a caller who waits may destroy the communicator right after.
  void finish(std::optional<rt::sdk::Error> error, std::atomic<int>& unfinished);
  bool is_done() const;
  // Returns false if the task has not ended before the deadline; time_point::min() means not to
  // wait. Throws the error of the task.
  bool wait(std::chrono::steady_clock::time_point deadline);
  std::chrono::steady_clock::time_point begun() const { return begun_; }

  // The collective in shared memory whose outcome it is; nullptr: none.
  void shares(Shared operation) { shared_ = std::move(operation); }
  const Shared& shared() const { return shared_; }

 private:
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  Shared shared_;
  mutable std::mutex mutex_;
  std::condition_variable finished_;
  bool done_ = false;
  std::optional<rt::sdk::Error> error_;
};

// A thread with a queue of tasks. Thread-safe.
class Lane {
 public:
  using Task = std::function<void()>;  // must not throw

  Lane();
  // Waits until all enqueued tasks have run.
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

}  // namespace collectives::gloo

#endif  // COLLECTIVES_GLOO_LANE_H_
