// Work that rank 0 does alone while the other ranks wait: writing files and making plans.
#ifndef RUNTIME_LAUNCH_MAIN_WORK_H_
#define RUNTIME_LAUNCH_MAIN_WORK_H_

#include <chrono>
#include <functional>
#include <string>

#include "runtime/launch/store.h"
#include "runtime/watch/watchdog.h"

namespace runtime::launch {

// Runs such work. The ranks do not wait in a collective, whose deadline (comm.timeout_s) is meant
// for the network and not for a disk, but for a key in the job's store. Meanwhile rank 0 sets other
// keys as heartbeats. Each rank has one object, which its own thread uses. Store and watchdog must
// outlive it.
class MainWork {
 public:
  struct Options {
    std::string prefix;  // of the keys in the store; new for each attempt to run the job
    int rank = 0;
    std::chrono::nanoseconds silence;  // rank 0 counts as lost after this time without a heartbeat
    std::chrono::nanoseconds timeout;  // longest duration of the work
    std::string job_folder;            // the launcher's rendezvous folder; "" without a launcher
  };
  MainWork(Store& store, watch::Watchdog& watchdog, Options options)
      : store_(store), watchdog_(watchdog), options_(std::move(options)) {}

  // Every rank of the job calls run() in the same place, without a collective in progress. Rank 0
  // runs `work`, and finishes it even if other ranks are lost meanwhile; on the other ranks run()
  // returns when the work is done. `what` says what rank 0 does ("saving the weights"). Throws on
  // rank 0 what `work` throws, and CommunicationError once the job cannot continue. Work that takes
  // longer than the timeout ends the job with exit code 5 and a message that says so.
  void run(const char* what, const std::function<void()>& work);

 private:
  void lead(const std::string& keys, const char* what, const std::function<void()>& work);
  void follow(const std::string& keys, const char* what);

  Store& store_;
  watch::Watchdog& watchdog_;
  const Options options_;
  int count_ = 0;
};

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_MAIN_WORK_H_
