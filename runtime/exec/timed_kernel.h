// Launches of one kernel in batches, and what they take by the clock of the device.
#ifndef RUNTIME_EXEC_TIMED_KERNEL_H_
#define RUNTIME_EXEC_TIMED_KERNEL_H_

#include <functional>

#include "plugins/host/recording.h"
#include "runtime/exec/launch_addresses.h"

namespace runtime::exec {

// Measures work of a stream: between two events, so that neither queueing nor the host's wait
// counts, or by the clock of the host if the device works in the calling thread. One thread uses
// it.
class StreamTimer {
 public:
  explicit StreamTimer(plugins::host::Device& device)
      : begin_(device.create_event()), end_(device.create_event()) {}
  // Nanoseconds of what `work` queues on the stream, behind what `lead` queues (null: nothing), so
  // that the device is not idle when it begins; waits for both once. Throws the first error of the
  // work. A device that works in the calling thread needs no lead.
  double time(plugins::host::Stream& stream, const std::function<void()>& lead,
              const std::function<void()>& work);

 private:
  plugins::host::Event begin_, end_;
};

// A kernel with operands. Timer, stream and kernel must outlive it, and it is drained (drain.h)
// before they end. The methods throw plugins::host::Error as launches do.
class TimedKernel {
 public:
  TimedKernel(plugins::host::Stream& stream, StreamTimer& timer, plugins::host::Kernel& kernel,
              LaunchAddresses addresses)
      : stream_(stream), timer_(timer), kernel_(kernel), addresses_(std::move(addresses)) {}

  // Nanoseconds of one launch, which may load code.
  double launch_first();
  // From now on a batch has this many launches (before: one), behind one that is not measured if
  // `leads`. They are recorded, if the device can, so that the host queues all of them by one call.
  void set_batch(int launches, bool leads);
  // Runs a batch; the nanoseconds of all its launches.
  double launch_batch();
  int batch() const { return batch_; }

 private:
  void queue(int launches);

  plugins::host::Stream& stream_;
  StreamTimer& timer_;
  plugins::host::Kernel& kernel_;
  LaunchAddresses addresses_;
  int batch_ = 1;
  bool leads_ = true;
  plugins::host::Recording recording_;
};

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_TIMED_KERNEL_H_
