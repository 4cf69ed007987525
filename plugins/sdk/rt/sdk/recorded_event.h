// Events that can be recorded again, for vendors whose markers cannot.
#ifndef RT_SDK_RECORDED_EVENT_H_
#define RT_SDK_RECORDED_EVENT_H_

#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>

#include "rt/sdk/error.h"

namespace rt::sdk {

// An event of the contract. Each record makes a new marker of the vendor's, and who waits keeps the
// one that was the latest then, so that the event may be recorded again or destroyed meanwhile. An
// event that was never recorded counts as complete. All methods may be called from any thread.
//
// Marker is a handle that can be copied and keeps what it refers to alive. It has
//   void synchronize() const: blocks the calling thread until the work in front of it has run, and
//     throws the first error of that work;
//   bool is_complete() const;
//   int64_t nanoseconds() const: when the work had run, on a clock that all streams share.
// A stream, rt_stream, has
//   Marker mark(): puts a marker behind the work that it has so far;
//   void wait(const Marker&): work that is queued later waits for the marker.
// `struct rt_event : RecordedEvent<Marker>` with a constructor from rt_device& is then what
// rt/sdk/device_table.h needs. Equivalent to: torch.cuda.Event.
template <typename Marker>
class RecordedEvent {
 public:
  // Records the event behind the work of the stream so far. Replaces an earlier record.
  template <typename Stream>
  void record(Stream& stream) {
    Marker marker = stream.mark();
    const std::lock_guard lock(mutex_);
    latest_ = std::move(marker);
  }
  // Lets work that is queued on the stream from now on wait for the latest record.
  template <typename Stream>
  void wait(Stream& stream) const {
    if (const auto marker = latest()) stream.wait(*marker);
  }
  // Blocks until the latest record is complete; throws the first error of the work in front of it.
  void synchronize() const {
    if (const auto marker = latest()) marker->synchronize();
  }
  // Whether the latest record is complete. Does not block.
  bool is_complete() const {
    const auto marker = latest();
    return !marker || marker->is_complete();
  }
  // Nanoseconds from this event to `end`. Throws Error (RT_ERROR_INVALID_ARGUMENT) unless both were
  // recorded and are complete.
  int64_t elapsed_until(const RecordedEvent& end) const {
    return end.nanoseconds() - nanoseconds();
  }

 private:
  std::optional<Marker> latest() const {
    const std::lock_guard lock(mutex_);
    return latest_;
  }
  int64_t nanoseconds() const {
    const auto marker = latest();
    if (marker && marker->is_complete()) return marker->nanoseconds();
    throw Error(
        RT_ERROR_INVALID_ARGUMENT,
        "event_elapsed: an event was not recorded or is not complete; synchronise it first");
  }

  mutable std::mutex mutex_;
  std::optional<Marker> latest_;  // guarded by mutex_
};

}  // namespace rt::sdk

#endif  // RT_SDK_RECORDED_EVENT_H_
