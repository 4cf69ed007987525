// A queue whose work a thread of the host does: streams for hardware that has no queues, or whose
// driver blocks the caller.
#ifndef RT_SDK_HOST_QUEUE_H_
#define RT_SDK_HOST_QUEUE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <variant>

#include "rt/sdk/ring.h"

namespace rt::sdk {

// A point in the work of a HostQueue, for RecordedEvent (rt/sdk/recorded_event.h). Copies are the
// same point. All methods may be called from any thread.
class HostMarker {
 public:
  void synchronize() const { time_->wait(kNotYet); }
  bool is_complete() const { return *time_ != kNotYet; }
  // When the work in front of the point had run, on the steady clock.
  int64_t nanoseconds() const { return *time_; }

 private:
  template <typename Task>
  friend class HostQueue;
  static constexpr int64_t kNotYet = 0;

  void complete() const {
    using std::chrono::nanoseconds;
    *time_ = nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
    time_->notify_all();
  }

  std::shared_ptr<std::atomic<int64_t>> time_ = std::make_shared<std::atomic<int64_t>>(kNotYet);
};

// Runs tasks in the order of their submission, on a thread of its own. One thread may use a queue
// at a time, as a stream. After a task has failed, later ones are skipped until synchronize()
// reports the error; markers and waits are not skipped, so that no other queue waits for ever.
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
  // Returns the next entry, and whether tasks are skipped; nothing when the queue ends.
  std::optional<std::pair<Entry, bool>> pop() {
    std::unique_lock lock(mutex_);
    queued_.wait(lock, [&] { return !entries_.empty() || stop_; });
    if (entries_.empty()) return std::nullopt;
    std::optional<std::pair<Entry, bool>> next(std::in_place, entries_.pop(), error_ != nullptr);
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
  void work() {
    while (auto next = pop()) {
      auto& [entry, skips] = *next;
      std::exception_ptr error;
      if (const auto* marker = std::get_if<HostMarker>(&entry)) marker->complete();
      if (const auto* wait = std::get_if<Wait>(&entry)) wait->marker.synchronize();
      if (auto* task = std::get_if<Task>(&entry); task != nullptr && !skips)
        error = run_task(*task);
      next.reset();  // what the task owns is released before anybody learns that it has run
      const std::lock_guard lock(mutex_);
      busy_ = false;
      if (error) error_ = std::move(error);
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
