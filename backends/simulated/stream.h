// Queued work. A stream runs its tasks in order on its own thread, later, after random delays.
#ifndef BACKENDS_SIMULATED_STREAM_H_
#define BACKENDS_SIMULATED_STREAM_H_

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <variant>
#include <vector>

#include "backends/reference/answer.h"
#include "backends/simulated/device.h"
#include "rt/sdk/host_queue.h"

namespace backends::simulated {

struct LaunchTask {
  std::shared_ptr<const reference::Planned> planned;
  std::shared_ptr<const std::string> label;  // rt_op_desc.label; empty: the host has not told
  std::array<const void*, RT_MAX_INPUTS> inputs;
  std::array<void*, RT_MAX_OUTPUTS> outputs;
  void* workspace;
  void* saved;
  int64_t ns = 0;  // by the clock of the device's own
  // Whether the plan has run before, so that its code is loaded; shared by its launches.
  std::shared_ptr<std::atomic<bool>> loaded;
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
struct CallTask {  // a collective of tests/collectives/simulated
  std::function<void()> call;
};
using Task = std::variant<LaunchTask, CopyTask, FillTask, CallTask>;

// A point in the work of a stream (rt/sdk/recorded_event.h).
struct Marker {
  void synchronize() const { point.synchronize(); }
  bool is_complete() const { return point.is_complete(); }
  int64_t nanoseconds() const { return time == nullptr ? point.nanoseconds() : *time; }

  rt::sdk::HostMarker point;
  std::shared_ptr<const int64_t> time;  // by the clock of the device's own; null: it has none
};

// A stream may be used by one thread at a time.
class Stream {
 public:
  explicit Stream(Device& device);
  ~Stream();  // waits for all tasks
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Queues the task and returns at once. Launches of the operation that the option `late` names
  // wait for the next call of synchronize().
  void submit(Task task);
  void copy(void* destination, const void* source, uint64_t bytes);
  void fill(void* destination, int32_t value, uint64_t bytes);
  Marker mark();
  void wait(const Marker& marker);
  // From now on launches, copies and fills are recorded instead of run, until end_capture returns
  // them. All other calls throw meanwhile, but a wait for an event without a record.
  void begin_capture();
  std::vector<Task> end_capture();
  // Waits for all tasks, throws the first error among them and clears it. After an error, later
  // tasks queued until this call are skipped.
  void synchronize();
  Device& device() { return device_; }

 private:
  void refuse_in_capture(const char* what) const;
  void submit_late();
  void run(Task& task);
  void run(const LaunchTask& task);
  void take_time(const LaunchTask& task);
  void run_kernel(const LaunchTask& task);
  void run(const CopyTask& task);
  void run(const FillTask& task);
  // Damages output 0 of an operation that has run, as the options ask.
  void damage(const reference::Planned& plan, void* output) const;

  Device& device_;
  std::optional<std::vector<Task>> capture_;
  std::vector<Task> late_;
  std::mt19937_64 random_;           // used by the thread of the queue only
  std::atomic<bool> rested_ = true;  // the host has waited, and nothing was launched since
  rt::sdk::HostQueue<Task> queue_;
};

}  // namespace backends::simulated

#endif  // BACKENDS_SIMULATED_STREAM_H_
