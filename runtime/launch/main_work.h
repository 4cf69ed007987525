// What rank 0 does alone while the others wait for it: files that it writes, plans that it makes.
#ifndef RUNTIME_LAUNCH_MAIN_WORK_H_
#define RUNTIME_LAUNCH_MAIN_WORK_H_

#include <chrono>
#include <functional>
#include <string>

#include "runtime/exec/watchdog.h"
#include "runtime/launch/store.h"

namespace runtime::launch {

// The ranks do not wait in a collective, whose deadline (comm.timeout_s) is made for the network
// and not for a disk, but for a key in the job's store, in which rank 0 sets others meanwhile, as
// signs of life.
// One per rank; by the rank's thread. Store and watchdog must outlive it.
class MainWork {
 public:
  struct Options {
    std::string prefix;  // of keys in the store; new for each attempt to run the job
    int rank = 0;
    std::chrono::nanoseconds silence;  // after so long without a sign rank 0 counts as lost
    std::chrono::nanoseconds timeout;  // of the work
    std::string job_folder;            // the launcher's rendezvous folder; empty: none of ours
  };
  MainWork(Store& store, exec::Watchdog& watchdog, Options options)
      : store_(store), watchdog_(watchdog), options_(std::move(options)) {}

  // Every rank of the job calls it in the same place, none of them with a collective under way.
  // Rank 0 runs `work`, and finishes it when other ranks are lost meanwhile; it returns on all
  // others when that is done. `what` says what rank 0 does ("saving the weights").
  // Throws on rank 0 what `work` throws, and CommunicationError once the job cannot go on. Work
  // that takes longer than the timeout ends the job with exit 5 and with words that say so.
  void run(const char* what, const std::function<void()>& work);

 private:
  void lead(const std::string& keys, const char* what, const std::function<void()>& work);
  void follow(const std::string& keys, const char* what);

  Store& store_;
  exec::Watchdog& watchdog_;
  const Options options_;
  int count_ = 0;
};

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_MAIN_WORK_H_
