// Queued work: a stream runs it in order, later, on its own thread, after random delays.
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

// Counts records: record n is complete when `completed` >= n. Thread-safe.
class Event {
 public:
  using Time = std::chrono::steady_clock::time_point;

  uint64_t arm();  // number of the new record
  uint64_t latest() const;
  void complete(uint64_t record);
  bool is_complete(uint64_t record) const;
  void wait(uint64_t record) const;
  // When the latest completed record completed; none if there is none.
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
  std::vector<std::byte> staged;  // a pageable source, which may change after the call
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

// Calls from one thread at a time.
class Stream {
 public:
  explicit Stream(Device& device);
  ~Stream();  // waits for the work
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Returns at once. Grows the queue rarely, otherwise allocates nothing.
  void submit(Task task);
  // From now on launches, copies and fills are kept instead of run; until end_capture, which
  // returns them. Everything else throws meanwhile.
  void begin_capture();
  std::vector<Task> end_capture();
  // Waits for all work; throws its first error and forgets it. After an error the rest of the work
  // queued until then is skipped, except events.
  void synchronize();
  Device& device() { return device_; }

 private:
  void refuse_in_capture(const char* what) const;
  void work();
  void run(const Task& task);
  void run(const LaunchTask& task);
  void run(const CopyTask& task);
  void run(const FillTask& task);
  // The damage that options ask for, to output 0 of an operation that has run.
  void damage(const reference::Planned& plan, void* output) const;
  bool pop(Task& task);

  Device& device_;
  std::optional<std::vector<Task>> capture_;  // the caller's
  std::mt19937_64 random_;                    // the worker's
  std::mutex mutex_;
  std::condition_variable queued_, idle_;
  std::vector<Task> ring_;  // guarded by mutex_, like all below
  size_t head_ = 0, count_ = 0;
  std::vector<Task> late_;  // launches that are kept back
  bool busy_ = false, stop_ = false, waiting_ = false;
  std::optional<rt::sdk::Error> error_;
  std::thread worker_;
};

}  // namespace backends::simulated

#endif  // TESTS_BACKENDS_SIMULATED_STREAM_H_
