// Events of devices that do all work in the calling thread (RT_DEVICE_INLINE).
#ifndef RT_SDK_INLINE_EVENT_H_
#define RT_SDK_INLINE_EVENT_H_

#include <chrono>
#include <cstdint>
#include <optional>

#include "rt/sdk/error.h"

namespace rt::sdk {

// An event of the contract whose streams have finished everything before it when it is recorded, so
// that it is always complete. It remembers the time of the latest record.
class InlineEvent {
 public:
  // The methods are those that rt/sdk/device_table.h asks for.
  template <typename Stream>
  void record(Stream&) {
    recorded_ = std::chrono::steady_clock::now();
  }
  template <typename Stream>
  void wait(Stream&) const {}
  void synchronize() const {}
  bool is_complete() const { return true; }
  // Throws Error (RT_ERROR_INVALID_ARGUMENT) unless both events were recorded.
  int64_t elapsed_until(const InlineEvent& end) const {
    if (!recorded_ || !end.recorded_) {
      throw Error(RT_ERROR_INVALID_ARGUMENT,
                  "the elapsed time of an event that was never recorded; record both events and "
                  "wait for them first");
    }
    return std::chrono::nanoseconds(*end.recorded_ - *recorded_).count();
  }

 private:
  std::optional<std::chrono::steady_clock::time_point> recorded_;
};

}  // namespace rt::sdk

#endif  // RT_SDK_INLINE_EVENT_H_
