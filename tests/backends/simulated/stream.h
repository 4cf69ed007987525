// Queued work. A stream runs its tasks in order on its own thread, later, after random delays.
#ifndef TESTS_BACKENDS_SIMULATED_STREAM_H_
#define TESTS_BACKENDS_SIMULATED_STREAM_H_

#include <array>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <variant>
#include <vector>

#include "backends/reference/answer.h"
#include "tests/backends/simulated/device.h"

namespace backends::simulated {

// Counts records: record n is complete when `completed` >= n. All methods may be called from any
// thread.
class Event {
 public:
  using Time = std::chrono::steady_clock::time_point;

  uint64_t arm();  // returns the number of the new record
  uint64_t latest() const;
  void complete(uint64_t record);
  bool is_complete(uint64_t record) const;
  void wait(uint64_t record) const;
  // The time at which the latest completed record completed; nullopt if no record has completed.
  std::optional<Time> time() const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  uint64_t armed_ = 0, completed_ = 0;
  Time time_{};
};

struct LaunchTask {
  std::shared_ptr<const reference::Planned> planned;
  std::array<const void*, RT_MAX_INPUTS> inputs;
  std::array<void*, RT_MAX_OUTPUTS> outputs;
  void* workspace;
  void* saved;
};
struct CopyTask {
  void* destination;
  const void* source;
  uint64_t bytes;
  std::vector<std::byte> staged;  // the bytes of a pageable source, which may change after the call
};
struct FillTask {
  void* destination;
  int value;
  uint64_t bytes;
};
struct RecordTask {
  std::shared_ptr<Event> event;
  uint64_t record;
};
struct WaitTask {
  std::shared_ptr<Event> event;
  uint64_t record;
};
struct CallTask {  // a collective of tests/collectives/simulated
  std::function<void()> call;
};
using Task = std::variant<LaunchTask, CopyTask, FillTask, RecordTask, WaitTask, CallTask>;

// A stream may be used by one thread at a time.
class Stream {
 public:
  explicit Stream(Device& device);
  ~Stream();  // waits for all tasks
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Queues the task and returns at once. Allocates nothing unless the queue has to grow, which is
  // rare.
  void submit(Task task);
  // From now on launches, copies and fills are recorded instead of run, until end_capture returns
  // them. All other tasks throw meanwhile.
  void begin_capture();
  std::vector<Task> end_capture();
  // Waits for all tasks, throws the first error among them and clears it. After an error, later
  // tasks queued until this call are skipped, except events.
  void synchronize();
  Device& device() { return device_; }

 private:
  void refuse_in_capture(const char* what) const;
  void work();
  void run(const Task& task);
  void run(const LaunchTask& task);
  void run(const CopyTask& task);
  void run(const FillTask& task);
  // Damages output 0 of an operation that has run, as the options ask.
  void damage(const reference::Planned& plan, void* output) const;
  bool pop(Task& task);

  Device& device_;
  std::optional<std::vector<Task>> capture_;  // used by the calling thread only
  std::mt19937_64 random_;                    // used by the worker thread only
  std::mutex mutex_;
  std::condition_variable queued_, idle_;
  std::vector<Task> ring_;  // guarded by mutex_, like all members below
  size_t head_ = 0, count_ = 0;
  std::vector<Task> late_;  // launches that are held back
  bool busy_ = false, stop_ = false, waiting_ = false;
  std::optional<rt::sdk::Error> error_;
  std::thread worker_;
};

}  // namespace backends::simulated

#endif  // TESTS_BACKENDS_SIMULATED_STREAM_H_
