// The objects behind the opaque types of the contract; rt/sdk/communicator_table.h makes the table.
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
#include "rt/sdk/communicator_table.h"

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

// The host knows an object of this class as rt_work.
class Work {
 public:
  explicit Work(std::shared_ptr<Call> call) : call_(std::move(call)) {}
  bool poll() { return call_->wait(Clock::now()); }
  void wait(rt::sdk::Deadline deadline);

 private:
  const std::shared_ptr<Call> call_;
};

// The host knows an object of this class as rt_communicator. It serializes the calls on a
// communicator, except abort() and failure(), which any thread may call.
class Communicator : public rt::sdk::CommunicatorBase {
 public:
  Communicator(const rt_host& host, const std::string& name, const Place& place);
  ~Communicator();  // waits for the collectives that were started
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Meets all ranks. Throws Error (RT_ERROR_TIMEOUT) with the ranks that are missing.
  void meet(rt::sdk::Deadline deadline);
  // Sends this rank's part at once and leaves the rest to the thread of this object, so that no
  // collective waits for another one to be started, and a group has nothing to do.
  Work* enqueue(const rt_collective& collective) { return new Work(start(collective)); }
  // Returns nullptr for a negative colour.
  std::unique_ptr<Communicator> split(int32_t color, int32_t key, rt::sdk::Deadline deadline);
  void abort() { aborted_ = true; }
  std::optional<rt::sdk::Error> failure() const;

 private:
  std::shared_ptr<Call> start(const rt_collective& collective);
  void expect_alive() const;
  void work();
  void run(const Call& call);
  std::string label_of(const rt_collective& collective);

  const Transport transport_;
  const Place place_;
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

}  // namespace template_communicator

#endif  // COMMUNICATOR_H_
