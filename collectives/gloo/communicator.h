// A communicator: its connections, the threads that block in the place of callers, and how it
// fails.
#ifndef COLLECTIVES_GLOO_COMMUNICATOR_H_
#define COLLECTIVES_GLOO_COMMUNICATOR_H_

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lane.h"
#include "mesh.h"
#include "roll_call.h"
#include "rt/communicator.h"
#include "rt/sdk/error.h"

namespace collectives::gloo {

using rt::sdk::Error;

// Calls are serialized by the caller, except abort and failure (any thread).
//
// Collectives run one after the other in one lane; sends and receives are started by enqueue
// itself, and awaited in a lane for each peer and direction. A watcher thread sleeps until a peer
// says farewell or its connection breaks.
class Communicator {
 public:
  // `names[r]` is what messages call rank r: its number in the communicator that was created,
  // before splits.
  Communicator(const rt_host& host, const Membership& membership, std::vector<int> names,
               const Device& device, Deadline deadline);
  // Ends work that is not complete as abort does. Ends within the time that a peer's reduction of
  // one segment takes.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // nullptr for a negative colour.
  std::unique_ptr<Communicator> split(int32_t color, int32_t key, Deadline deadline);

  std::shared_ptr<Completion> enqueue(const rt_collective& call);
  // Throws RT_ERROR_TIMEOUT, naming who is late, when the time has passed; or the task's error.
  void wait(Completion& completion, std::chrono::nanoseconds timeout);
  void begin_group() { ++open_groups_; }
  void end_group();

  void abort();
  std::optional<Error> failure();

 private:
  void check(const rt_collective& call);
  std::shared_ptr<Completion> transfer(const rt_collective& call);
  Lane& lane(int peer, int kind);
  void run(Completion& completion, const Lane::Task& body);
  void fail(Error error, int32_t last_word);  // the first one stays
  void fail_because();
  void fail_lost(const std::string& why);
  Error describe_loss(const std::string& why, int32_t& last_word);
  void watch();
  std::string name(int rank) const {
    return std::to_string(names_.at(static_cast<std::size_t>(rank)));
  }

  const rt_host& host_;
  const Membership membership_;
  const std::vector<int> names_;
  const std::shared_ptr<Mesh> mesh_;
  RollCall roll_call_;
  int open_groups_ = 0;
  int splits_ = 0;
  std::atomic<int> unfinished_ = 0;

  std::mutex failure_mutex_;
  std::optional<Error> failure_;
  int32_t last_word_;  // what this rank will say to the others

  std::map<std::pair<int, int>, std::unique_ptr<Lane>> lanes_;  // by peer (-1: all) and kind
  std::thread watcher_;
};

}  // namespace collectives::gloo

#endif  // COLLECTIVES_GLOO_COMMUNICATOR_H_
