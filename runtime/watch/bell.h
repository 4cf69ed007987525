// How one thread waits for several events that other processes cause.
#ifndef RUNTIME_WATCH_BELL_H_
#define RUNTIME_WATCH_BELL_H_

#include <vector>

namespace runtime::watch {

// Rings once an event has happened, and goes on ringing. One thread uses it; it must not outlive
// what has made it. Functions throw std::exception if the event cannot be heard of any more; a new
// bell may then be had.
class Bell {
 public:
  virtual ~Bell() = default;
  // One of these becomes readable (poll()) when rings() may have become true. They belong to the
  // bell.
  virtual std::vector<int> descriptors() const = 0;
  // Does not wait.
  virtual bool rings() = 0;
};

}  // namespace runtime::watch

#endif  // RUNTIME_WATCH_BELL_H_
