// The worker threads of lanes, completions that callers wait for, and signals that these threads
// block.
#include "lane.h"

#include "collectives/mesh/blocked_signals.h"

namespace collectives::gloo {

void Completion::finish(std::optional<rt::sdk::Error> error, std::atomic<int>& unfinished) {
  const std::lock_guard lock(mutex_);
  if (done_) return;
  --unfinished;
  error_ = std::move(error);
  done_ = true;
  finished_.notify_all();
}

bool Completion::is_done() const {
  const std::lock_guard lock(mutex_);
  return done_;
}

bool Completion::wait(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  if (deadline > std::chrono::steady_clock::time_point::min()) {
    finished_.wait_until(lock, deadline, [&] { return done_; });
  }
  if (error_) throw *error_;
  return done_;
}

Lane::Lane() {
  const mesh::BlockedSignals inherited;
  thread_ = std::thread(&Lane::run, this);
}

Lane::~Lane() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_one();
  }
  thread_.join();
}

void Lane::enqueue(Task task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  changed_.notify_one();
}

void Lane::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    {
      const Task task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
    }
    lock.lock();
  }
}

}  // namespace collectives::gloo
