// A communicator: its connections, the threads that block in place of callers, and how it fails.
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

#include "collectives/mesh/liveness_check.h"
#include "lane.h"
#include "mesh.h"
#include "rt/sdk/communicator_table.h"

namespace collectives::gloo {

using rt::sdk::Error;

class Work;

// The caller serializes all calls except abort and failure, which any thread may call.
//
// Collectives run one after the other in one lane (lane.h), except those that ranks on one machine
// carry out through shared memory (collectives/shared_memory): if the others need nothing more of
// this rank, the thread that waits for them does that, otherwise also the lane.
// enqueue itself starts sends and receives; a lane for each peer and direction waits for them. A
// watcher thread sleeps until a peer says that it leaves, or its connection breaks.
class Communicator : public rt::sdk::CommunicatorBase {
 public:
  // `names[r]` is the number of rank r in messages: its rank in the communicator that was created
  // first, before any split.
  Communicator(const rt_host& host, const Membership& membership, std::vector<int> names,
               const Device& device, mesh::Deadline deadline);
  // Aborts unfinished work. Takes at most as long as a peer's reduction of one segment.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // A collective call. Returns nullptr for a negative colour.
  std::unique_ptr<Communicator> split(int32_t color, int32_t key, mesh::Deadline deadline);

  // Starts a call. Throws if it is invalid or the communicator has failed. Starting a send or
  // receive never waits for another call, so a group needs no special treatment.
  Work* enqueue(const rt_collective& call);
  // Whether the call has completed. Throws the error of the task.
  bool poll(Completion& completion) { return wait_until(completion, mesh::Deadline::min()); }
  // Throws RT_ERROR_TIMEOUT, with the ranks that are late, when the time has passed, or the error
  // of the task.
  void wait(Completion& completion, mesh::Deadline deadline);
  // The caller waits and polls no more: the lane takes over a collective in shared memory.
  void release(const std::shared_ptr<Completion>& completion);

  // Fails pending and later calls; failure() is the error of the communicator, if it has failed.
  void abort();
  std::optional<Error> failure();

 private:
  void check(const rt_collective& call);
  std::shared_ptr<Completion> start(const rt_collective& call);
  std::shared_ptr<Completion> transfer(const rt_collective& call);
  std::shared_ptr<Completion> on_host(const rt_collective& call);
  void drive(const std::shared_ptr<Completion>& completion);
  bool wait_until(Completion& completion, mesh::Deadline deadline);
  Lane& lane(int peer, int kind);
  void run(Completion& completion, const Lane::Task& body);
  void fail(Error error, int32_t leave_reason);  // only the first failure is kept
  void fail_because();
  void fail_disagreeing(int peer, const std::string& what);
  void fail_lost(const std::string& why);
  Error describe_loss(const std::string& why, int32_t& leave_reason);
  void watch();
  std::string who() const;  // the beginning of messages
  std::string name(int rank) const {
    return std::to_string(names_.at(static_cast<std::size_t>(rank)));
  }

  const rt_host& host_;
  const Membership membership_;
  const std::vector<int> names_;
  const std::shared_ptr<Mesh> mesh_;
  mesh::LivenessCheck liveness_;
  int splits_ = 0;
  std::atomic<int> unfinished_ = 0;

  std::mutex failure_mutex_;
  std::optional<Error> failure_;
  int32_t last_word_;  // what this rank will send to the others when it leaves

  std::map<std::pair<int, int>, std::unique_ptr<Lane>> lanes_;  // by peer (-1: all), kind
  std::thread watcher_;
};

// A started call: what the host knows as rt_work. The host destroys it before its communicator.
class Work {
 public:
  Work(Communicator& communicator, std::shared_ptr<Completion> completion)
      : communicator_(communicator), completion_(std::move(completion)) {}
  ~Work();
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  bool poll() { return communicator_.poll(*completion_); }
  void wait(mesh::Deadline deadline) { communicator_.wait(*completion_, deadline); }

 private:
  Communicator& communicator_;
  const std::shared_ptr<Completion> completion_;
};

}  // namespace collectives::gloo

#endif  // COLLECTIVES_GLOO_COMMUNICATOR_H_
