// Which calls that may wait for a device are under way, for whoever has to notice that the device
// does not answer any more.
#ifndef PLUGINS_HOST_IN_CALL_H_
#define PLUGINS_HOST_IN_CALL_H_

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace plugins::host {

class InCall;

// A stream, and what it was given last. Pointers are null if there is nothing to tell.
struct Place {
  std::shared_ptr<const std::string> stream;  // "simulated:0 stream 1"
  std::shared_ptr<const std::string> last;    // Operation::label of the last launch
};

// "simulated:0 stream 1, launched last: layer 'conv1'"
std::string to_string(const Place& place);

// A call that has not returned yet.
struct Silence {
  std::chrono::nanoseconds time{0};     // since longest() has first seen it
  std::chrono::nanoseconds longest{0};  // what the longest one that has returned took
  std::string place;
};

// The calls of one device that are under way. Thread-safe.
class Calls {
 public:
  // The call that has been seen for the longest time; nullopt if no thread is in one. To be asked
  // regularly, because the time begins when a call is first seen: a call itself looks at no clock.
  std::optional<Silence> longest();

 private:
  friend class InCall;
  std::mutex mutex_;
  InCall* newest_ = nullptr;  // guarded by mutex_; each knows its neighbours
  std::chrono::nanoseconds longest_{0};
};

// Tells, while it lives, that the thread is in a call. Allocates nothing.
class InCall {
 public:
  // `place` must not change meanwhile.
  InCall(Calls& calls, const Place& place);
  ~InCall();
  InCall(const InCall&) = delete;
  InCall& operator=(const InCall&) = delete;

 private:
  friend class Calls;
  Calls& calls_;
  const Place& place_;
  InCall *before_, *behind_ = nullptr;
  std::optional<std::chrono::steady_clock::time_point> seen_;  // by longest(), for the first time
};

}  // namespace plugins::host

#endif  // PLUGINS_HOST_IN_CALL_H_
