// A communicator over NCCL: it joins with a deadline, queues collectives on streams, tracks each
// started collective (rt_work) by an event, and handles failures and abort.
//
// NCCL runs the calls of one of its communicators one after the other, whatever their streams.
// Sends and receives must not wait for each other or for collectives, so each ordered pair of ranks
// that uses them has an NCCL communicator of its own, which is created at the first call.
//
// Any thread may abort, and an aborted NCCL communicator is freed. So every call of the library
// that uses one is made under a mutex, groups as a whole, and no thread waits while it holds the
// mutex: calls with non-blocking NCCL communicators return before the other ranks have come.
#ifndef COLLECTIVES_NCCL_COMMUNICATOR_H_
#define COLLECTIVES_NCCL_COMMUNICATOR_H_

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api.h"
#include "native.h"
#include "rt/sdk/communicator_table.h"

namespace collectives::nccl {

using rt::sdk::Deadline;
using rt::sdk::Error;

class Work;

// An event that is recorded after a call. If the call is in a group, the event is recorded when the
// group ends. The communicator and the caller's rt_work share it. A call that is captured into a
// graph has no event and is complete at once: an event would exist in the graph only.
class Completion {
 public:
  explicit Completion(bool captured);
  ~Completion();
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;
  void record(GPU(Stream_t) stream);
  bool done() const;  // throws an error of the device
  bool captured() const { return captured_; }

 private:
  const bool captured_;
  GPU(Event_t) event_{};
  bool recorded_ = false;
};

// The caller serialises all calls except abort and failure, which any thread may call until the
// destructor begins.
class Communicator : public rt::sdk::CommunicatorBase {
 public:
  // Joins. The library's identifier is passed through the host's key-value store under
  // options.prefix. Throws RT_ERROR_TIMEOUT with the ranks that did not join.
  Communicator(const rt_host& host, const rt_comm_options& options);
  // Aborts unfinished collectives.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // A collective call. Returns nullptr for a negative `color`.
  std::unique_ptr<Communicator> split(int32_t color, int32_t key, Deadline deadline);

  // Starts a collective or, if a group is open, leaves that to end_group(). Throws if the call is
  // invalid or the communicator has failed.
  Work* enqueue(const rt_collective& call);
  // True once the collective has completed; throws if the communicator has failed.
  bool poll(const Completion& completion);
  // Throws RT_ERROR_TIMEOUT when the time has passed; the collective goes on.
  void wait(const Completion& completion, Deadline deadline);
  // Calls between these two start together; end_group() is called at the outermost end.
  void begin_group();
  void end_group();

  // Whether a collective of this kind may be captured into a graph: those that need no other NCCL
  // communicator and are not made of sends and receives.
  static bool is_capturable(int32_t kind);

  // Aborts the library's communicators; failure() is the error of the communicator, if any.
  void abort();
  std::optional<Error> failure();

 private:
  using Pair = std::pair<int, int>;  // (source, destination)
  struct Pending {
    rt_collective call;
    std::shared_ptr<Completion> completion;
    GPU(Stream_t) stream;
  };
  // The first part of the other two constructors: if one of them throws, the destructor runs.
  Communicator(const rt_host& host, const Native& native, std::string prefix,
               std::chrono::nanoseconds timeout);
  // Takes ownership of `comm`, a part of `parent`.
  Communicator(const Communicator& parent, ncclComm_t comm, std::string prefix, Deadline deadline);
  void prepare();
  void use_device() const;
  ncclComm_t join(const std::string& key, int rank, int size, Deadline deadline);
  // Waits until the library has carried out what was asked of `comm`.
  void settle(ncclComm_t comm, const char* what, Deadline deadline);
  void check(const rt_collective& call) const;
  std::shared_ptr<Completion> begin(const rt_collective& call);
  Pair pair_of(const rt_collective& call) const;
  void join_pairs(const std::vector<Pending>& calls);
  void issue(const std::vector<Pending>& calls);
  std::vector<ncclComm_t> start_all(const std::vector<Pending>& calls);
  void expect_alive() const;
  // The caller holds the mutex.
  ncclComm_t comm_of(const rt_collective& call) const;
  void start(const rt_collective& call, GPU(Stream_t) stream);
  void all_to_all(const rt_collective& call, GPU(Stream_t) stream);
  std::vector<ncclComm_t> comms() const;

  const rt_host& host_;
  const Native native_;
  const std::string prefix_;
  const std::chrono::nanoseconds timeout_;  // time limit of joining
  int rank_ = 0, size_ = 1, splits_ = 0;
  // Held by abort() and by every call of the library that uses one of the next three.
  std::mutex mutex_;
  ncclComm_t comm_ = nullptr;
  std::map<Pair, ncclComm_t> pairs_;  // the source is rank 0, the destination rank 1
  ncclComm_t part_ = nullptr;  // of an unfinished split: the library writes it in its own thread
  std::atomic<bool> aborted_ = false;
  bool captured_ = false;              // a call was captured; guarded by mutex_
  std::vector<std::thread> aborting_;  // see abort()
  GPU(Stream_t) own_stream_{};         // for calls that name no stream
  void* barrier_ = nullptr;            // one int32 in device memory
  std::vector<Pending> grouped_;       // the calls of the open group
  // The last call of each NCCL communicator: once it has completed, all earlier ones have.
  std::map<ncclComm_t, std::shared_ptr<Completion>> last_;
  bool prepared_ = false;
};

// A started collective: what the host knows as rt_work. The host destroys it before its
// communicator.
class Work {
 public:
  Work(Communicator& communicator, std::shared_ptr<Completion> completion)
      : communicator_(communicator), completion_(std::move(completion)) {}
  bool poll() { return communicator_.poll(*completion_); }
  void wait(Deadline deadline) { communicator_.wait(*completion_, deadline); }

 private:
  Communicator& communicator_;
  const std::shared_ptr<Completion> completion_;
};

}  // namespace collectives::nccl

#endif  // COLLECTIVES_NCCL_COMMUNICATOR_H_
