// Hands out the work items of asynchronous training and sends gradients to the owners of
// parameters.
#ifndef RUNTIME_TRAIN_ASYNCHRONOUS_EXCHANGE_H_
#define RUNTIME_TRAIN_ASYNCHRONOUS_EXCHANGE_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/exec/messenger.h"
#include "runtime/parallel/item_counter.h"

namespace runtime::train {

using Bytes = std::vector<std::byte>;

// The gradient of one work item, as a rank has computed it.
struct ItemGradient {
  int64_t item = 0;  // number of the work item, see parallel::ItemCounter
  double learning_rate = 0;
  double loss = 0;  // what the work item adds to the loss of its step
  int64_t samples = 0;
  std::vector<Bytes> ranges;  // of the gradient: the range of each owner
  double weight = 1;          // of the step's loss in a mean, see loss_mean.h
};

// The work of all ranks together.
struct WorkProgress {
  int64_t items = 0, samples = 0;
  double loss = 0;    // sum over the work items of loss times weight
  double weight = 0;  // sum over the work items
};

// One of the ranks of a job, each of which computes work items and owns a range of the flat
// parameters. Rank 0 hands out the items and is told of each that all owners have applied. Requests
// and gradients of other ranks are answered in the messenger's thread while this rank computes. The
// functions are called by one thread, the worker, except for next_item(). While they wait, they
// throw the error of the watchdog or of the messenger's thread, if there is one. Equivalent to:
// worker and server of a parameter server.
class WorkExchange {
 public:
  struct Options {
    int rank = 0, world_size = 1;
    int64_t max_staleness = 1;
    int64_t first_item = 0;  // the first one of a step; those before were applied in another run
    // Bytes of a rank's owned range.
    uint64_t owned_bytes = 0;
    // Applies a gradient to this rank's owned range and returns its new parameters. Called in the
    // messenger's thread.
    std::function<Bytes(const Bytes& gradient, double learning_rate)> apply;
  };

  WorkExchange(std::shared_ptr<plugins::host::Communicator> communicator, watch::Watchdog& watchdog,
               Options options);

  // Allows work items below `limit` to be taken. Every rank passes the same limits.
  void open(int64_t limit);
  // Waits for the next work item. Returns nullopt when none is left below the limit (once for each
  // open()), after stop() and pause(), and after release(). Called by any one thread.
  std::optional<int64_t> next_item();
  // Sends each owner its range of the gradient. Does not wait.
  void push(ItemGradient gradient);
  // Waits until all owners have applied the pushed gradient; returns their ranges as of then, by
  // owner.
  std::vector<Bytes> pull();
  // Ends the run on all ranks: no rank gets a work item of a step that has not begun.
  void stop(int signal);
  // On rank 0: waits until every work item that was taken has been applied.
  void drain();
  // On rank 0: ends what open() has begun as stop() does, but the ranks may open() again. They do
  // so after rank 0 has called go_on(), which it calls when every rank's next_item() has returned
  // nullopt.
  void pause();
  void go_on();

  // These three functions are for rank 0; on other ranks they return an empty progress or 0.
  WorkProgress take_progress();
  // The number of work items taken so far, Options::first_item included, and the signal of stop()
  // or 0.
  int64_t taken();
  int signal();

  // Makes next_item() return, in whatever thread it waits.
  void release();
  // To call when all ranks have met after the last pull(); see exec::Messenger.
  void close() { messenger_.close(); }

 private:
  template <class Predicate>
  void wait(std::unique_lock<std::mutex>& lock, Predicate predicate);
  void receive(int from, exec::Message message);
  void receive_gradient(int from, const exec::Message& message);
  void receive_range(int from, Bytes range);
  void receive_done(const exec::Message& message);
  void grant();

  const Options options_;
  watch::Watchdog& watchdog_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Used by the worker's functions. Work items may be taken below limit_. opened_ counts the calls
  // of open(), and ended_ those that have been worked off.
  int64_t limit_ = 0, opened_ = 0, ended_ = 0;
  bool released_ = false;
  std::optional<int64_t> ticket_;  // rank 0's answer; -1: no work item is left
  exec::Message weight_, done_;    // to be sent to rank 0 when all ranges are back
  std::vector<Bytes> ranges_;
  int missing_ = 0;  // ranges that are not back yet
  // Used on rank 0.
  parallel::ItemCounter counter_;
  struct Request {
    int rank;
    int64_t limit;
  };
  std::deque<Request> requests_;
  WorkProgress progress_;
  int signal_ = 0;
  bool paused_ = false;
  exec::Messenger messenger_;  // last member: its thread uses the others
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_ASYNCHRONOUS_EXCHANGE_H_
