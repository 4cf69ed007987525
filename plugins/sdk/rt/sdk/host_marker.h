// Points in the work of a queue that a thread of the host runs.
#ifndef RT_SDK_HOST_MARKER_H_
#define RT_SDK_HOST_MARKER_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>

namespace rt::sdk {

template <typename Task>
class HostQueue;

// A point in the work of a HostQueue (rt/sdk/host_queue.h), for RecordedEvent
// (rt/sdk/recorded_event.h). Copies are the same point. All methods may be called from any thread.
class HostMarker {
 public:
  // Waits for the work in front of the point. Throws the first exception of that work that
  // HostQueue::synchronize() had not thrown before the point, each time that it is called.
  void synchronize() const {
    if (const auto error = await()) std::rethrow_exception(error);
  }
  // Whether the work in front of the point has run, has failed or was skipped. Does not wait.
  bool is_complete() const { return point_->time != kNotYet; }
  // When the work in front of the point had run, on the steady clock.
  int64_t nanoseconds() const { return point_->time; }

 private:
  template <typename Task>
  friend class HostQueue;
  static constexpr int64_t kNotYet = 0;

  struct Point {
    std::atomic<int64_t> time = kNotYet;
    std::exception_ptr error;  // written before `time`
  };

  // The error of the work in front of the point, for which it waits; null if there is none.
  std::exception_ptr await() const {
    point_->time.wait(kNotYet);
    return point_->error;
  }
  void complete(std::exception_ptr error) const {
    using std::chrono::nanoseconds;
    point_->error = std::move(error);
    point_->time = nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
    point_->time.notify_all();
  }

  std::shared_ptr<Point> point_ = std::make_shared<Point>();
};

}  // namespace rt::sdk

#endif  // RT_SDK_HOST_MARKER_H_
