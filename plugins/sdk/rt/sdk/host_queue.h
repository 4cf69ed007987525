// A queue whose work a thread of the host does: streams for hardware that has no queues, or whose
// driver blocks the caller.
#ifndef RT_SDK_HOST_QUEUE_H_
#define RT_SDK_HOST_QUEUE_H_

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <variant>

#include "rt/sdk/host_marker.h"
#include "rt/sdk/ring.h"

namespace rt::sdk {

// Runs tasks in the order of their submission, on a thread of its own. One thread may use a queue
// at a time, as a stream. After a task has failed, later ones are skipped until synchronize()
// reports the error; markers and waits are not skipped, so that no other queue waits for ever. A
// queue that waits for a point behind a failed task has failed as well.
// submit() allocates only when more work waits than ever before. A Task has a default and can be
// moved. A task may not synchronise or destroy its own queue.
// Equivalent to: a CUDA stream.
template <typename Task = std::function<void()>>
class HostQueue {
 public:
  // `run` runs a task, on the thread of the queue. It throws if the task fails.
  explicit HostQueue(std::function<void(Task&)> run = [](Task& task) { task(); })
      : run_(std::move(run)), worker_([this] { work(); }) {}
  // Waits for all work. An error that nobody has asked for is lost.
  ~HostQueue() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    queued_.notify_one();
    worker_.join();
  }
  HostQueue(const HostQueue&) = delete;
  HostQueue& operator=(const HostQueue&) = delete;

  // Queues a task and returns at once.
  void submit(Task task) { push(std::move(task)); }
  // A point behind the work so far.
  HostMarker mark() {
    HostMarker marker;
    push(marker);
    return marker;
  }
  // Work that is queued later waits for a point of this or another queue.
  void wait(const HostMarker& marker) { push(Wait{marker}); }
  // Waits for all work. Throws the first exception of a task since the last call, of which guard()
  // of rt/sdk/error.h makes a status.
  void synchronize() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [&] { return entries_.empty() && !busy_; });
    if (const auto error = std::exchange(error_, nullptr)) std::rethrow_exception(error);
  }

 private:
  struct Wait {
    HostMarker marker;
  };
  using Entry = std::variant<Task, HostMarker, Wait>;

  void push(Entry entry) {
    {
      const std::lock_guard lock(mutex_);
      entries_.push(std::move(entry));
    }
    queued_.notify_one();
  }
  // Returns the next entry, and the error for which tasks are skipped; nothing when the queue ends.
  std::optional<std::pair<Entry, std::exception_ptr>> pop() {
    std::unique_lock lock(mutex_);
    queued_.wait(lock, [&] { return !entries_.empty() || stop_; });
    if (entries_.empty()) return std::nullopt;
    std::optional<std::pair<Entry, std::exception_ptr>> next(std::in_place, entries_.pop(), error_);
    busy_ = true;
    return next;
  }
  std::exception_ptr run_task(Task& task) noexcept {
    try {
      run_(task);
    } catch (...) {
      return std::current_exception();  // allocates nothing, and what it is guard() finds out
    }
    return nullptr;
  }
  // Returns the error of the queue after the entry; `failed` is that before it.
  std::exception_ptr run_entry(Entry& entry, const std::exception_ptr& failed) noexcept {
    if (const auto* marker = std::get_if<HostMarker>(&entry)) marker->complete(failed);
    if (const auto* wait = std::get_if<Wait>(&entry)) {
      const std::exception_ptr waited = wait->marker.await();
      return failed ? failed : waited;
    }
    auto* const task = std::get_if<Task>(&entry);
    return task == nullptr || failed ? failed : run_task(*task);
  }
  void work() {
    while (auto next = pop()) {
      std::exception_ptr error = run_entry(next->first, next->second);
      next.reset();  // what the task owns is released before anybody learns that it has run
      const std::lock_guard lock(mutex_);
      busy_ = false;
      error_ = std::move(error);
      if (entries_.empty()) idle_.notify_all();
    }
  }

  const std::function<void(Task&)> run_;
  std::mutex mutex_;
  std::condition_variable queued_, idle_;
  Ring<Entry> entries_;  // guarded by mutex_, like the members below
  bool busy_ = false, stop_ = false;
  std::exception_ptr error_;
  std::thread worker_;
};

}  // namespace rt::sdk

#endif  // RT_SDK_HOST_QUEUE_H_
