// Waits for the work of a stream before what that work uses is freed.
#ifndef PLUGINS_HOST_DRAIN_H_
#define PLUGINS_HOST_DRAIN_H_

#include <exception>

#include "plugins/host/device.h"

namespace plugins::host {

// Waits, when it is destroyed, for all work of a stream of which somebody else is the owner.
// Declare it behind everything that the work uses, so that nothing of that is freed too early,
// whatever way a scope is left. (A stream of one's own is simply declared behind what its work
// uses.) An error of the work is dropped: who needs the results has waited for them, and has been
// told.
class Drain {
 public:
  // `stream` must outlive this object.
  explicit Drain(Stream& stream) : stream_(stream) {}
  ~Drain() {
    try {
      stream_.synchronize();
    } catch (const std::exception&) {
      // The work has failed, so that it has ended.
    }
  }
  Drain(const Drain&) = delete;
  Drain& operator=(const Drain&) = delete;

 private:
  Stream& stream_;
};

}  // namespace plugins::host

#endif  // PLUGINS_HOST_DRAIN_H_
