// A communicator of NCCL: joining with a deadline, calls on streams, works as events, failure and
// abort.
//
// NCCL runs the calls of one of its communicators one after the other, whatever their streams.
// Sends and receives must not wait for each other or for collectives, so each ordered pair of ranks
// that uses them has a communicator of the library for itself, joined at the first call.
#ifndef COLLECTIVES_NCCL_COMMUNICATOR_H_
#define COLLECTIVES_NCCL_COMMUNICATOR_H_

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api.h"
#include "rt/communicator.h"
#include "rt/gpu.h"
#include "rt/plugin.h"

namespace collectives::nccl {

using rt::sdk::Error;
using Deadline = std::chrono::steady_clock::time_point;

Deadline deadline_in(int64_t timeout_ns);

// An event behind a call; not recorded before the group that the call is in has ended. Shared by
// the communicator and the caller's work.
class Completion {
 public:
  Completion();
  ~Completion();
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;
  void record(GPU(Stream_t) stream);
  bool done() const;  // throws what the device reports

 private:
  GPU(Event_t) event_{};
  bool recorded_ = false;
};

// Calls are serialized by the caller, except abort and failure (any thread).
class Communicator {
 public:
  // Joins: the library's identifier goes through the host's key-value store under options.prefix.
  // Throws RT_ERROR_TIMEOUT naming the ranks that did not come.
  Communicator(const rt_host& host, const rt_comm_options& options);
  // Work that is not complete is given up.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // nullptr for a negative colour.
  std::unique_ptr<Communicator> split(int32_t color, int32_t key, Deadline deadline);

  std::shared_ptr<Completion> enqueue(const rt_collective& call);
  bool poll(const Completion& completion);
  // Throws RT_ERROR_TIMEOUT when the deadline has passed; the work goes on.
  void wait(const Completion& completion, int64_t timeout_ns);
  void begin_group();
  void end_group();

  void abort();
  std::optional<Error> failure();

 private:
  using Pair = std::pair<int, int>;  // source and destination
  struct Pending {
    rt_collective call;
    std::shared_ptr<Completion> completion;
    GPU(Stream_t) stream;
  };
  Communicator(const Communicator& parent, ncclComm_t comm, std::string prefix, Deadline deadline);
  void prepare();
  void use_device() const;
  ncclComm_t join(const std::string& key, int rank, int size, Deadline deadline);
  // Until the library is through with what it was asked to start (communicators do not block).
  void settle(ncclComm_t comm, ncclResult_t started, const char* what, Deadline deadline);
  void check(const rt_collective& call) const;
  void issue(const std::vector<Pending>& calls);
  ncclComm_t comm_of(const rt_collective& call);
  void start(const rt_collective& call, GPU(Stream_t) stream);
  void all_to_all(const rt_collective& call, GPU(Stream_t) stream);
  void expect_alive();
  std::vector<ncclComm_t> comms() const;

  const rt_host& host_;
  const int32_t device_;
  const std::string prefix_;
  const std::chrono::nanoseconds timeout_;  // of joining
  int rank_ = 0, size_ = 1, splits_ = 0;
  std::mutex mutex_;  // guards comm_ and pairs_ against abort, which frees them
  ncclComm_t comm_ = nullptr;
  std::map<Pair, ncclComm_t> pairs_;  // the source is rank 0, the destination rank 1
  std::atomic<bool> aborted_ = false;
  GPU(Stream_t) own_stream_{};  // of calls that name none
  void* barrier_ = nullptr;     // one number on the device
  int open_groups_ = 0;
  std::vector<Pending> grouped_;  // calls of the open group
  std::vector<std::shared_ptr<Completion>> unfinished_;
};

}  // namespace collectives::nccl

#endif  // COLLECTIVES_NCCL_COMMUNICATOR_H_
