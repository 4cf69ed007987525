// The objects behind the opaque types of the contract.
#ifndef COMMUNICATOR_H_
#define COMMUNICATOR_H_

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "collective.h"
#include "rt/sdk/error.h"

namespace template_communicator {

using Clock = std::chrono::steady_clock;

// A collective that was started.
class Call {
 public:
  Call(const rt_collective& collective, std::string label)
      : collective(collective), label(std::move(label)) {}

  // Called once, by the thread that runs the collective.
  void finish(std::optional<rt::sdk::Error> error);
  // Returns whether the collective has completed before `limit`; throws its error.
  bool wait(Clock::time_point limit);

  const rt_collective collective;
  const std::string label;

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  bool finished_ = false;
  std::optional<rt::sdk::Error> error_;
};

}  // namespace template_communicator

// The host serializes the calls on a communicator, except abort() and error(), which any thread may
// call.
struct rt_communicator {
  rt_communicator(const rt_host& host, const std::string& name,
                  const template_communicator::Place& place);
  ~rt_communicator();  // waits for the collectives that were started
  rt_communicator(const rt_communicator&) = delete;
  rt_communicator& operator=(const rt_communicator&) = delete;

  // Meets all ranks. Throws Error (RT_ERROR_TIMEOUT) with the ranks that are missing.
  void meet(std::chrono::nanoseconds timeout);
  // Sends this rank's part at once and leaves the rest to the thread of this object, so that no
  // collective waits for another one to be started.
  std::shared_ptr<template_communicator::Call> start(const rt_collective& collective);
  // Returns nullptr for a negative colour.
  std::unique_ptr<rt_communicator> split(int32_t color, int32_t key,
                                         std::chrono::nanoseconds timeout);
  void abort() { aborted_ = true; }
  bool aborted() const { return aborted_; }

 private:
  using Call = template_communicator::Call;
  void work();
  void run(const Call& call);
  std::string label_of(const rt_collective& collective);

  const template_communicator::Transport transport_;
  const template_communicator::Place place_;
  uint64_t collectives_ = 0, splits_ = 0;
  // Sends and receives between two ranks match in order, whatever comes between them.
  std::map<std::string, uint64_t> messages_;
  std::atomic<bool> aborted_{false};
  std::mutex mutex_;
  std::condition_variable queued_;
  std::deque<std::shared_ptr<Call>> queue_;  // guarded by mutex_, as is stop_
  bool stop_ = false;
  std::thread thread_;
};

struct rt_work {
  std::shared_ptr<template_communicator::Call> call;
};

#endif  // COMMUNICATOR_H_
