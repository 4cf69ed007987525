// Who computes which part of which step, and how gradients find the owners of the parameters.
#ifndef RUNTIME_TRAIN_PART_EXCHANGE_H_
#define RUNTIME_TRAIN_PART_EXCHANGE_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/exec/messenger.h"
#include "runtime/parallel/part_counter.h"

namespace runtime::train {

using Bytes = std::vector<std::byte>;

// What a rank has computed of a step.
struct PartGradient {
  int64_t part = 0;  // see parallel::PartCounter
  double learning_rate = 0;
  double loss = 0;  // its share of the step's
  int64_t samples = 0;
  std::vector<Bytes> shards;  // of the gradient, by owner
};

// What all ranks have done together.
struct PartProgress {
  int64_t parts = 0, samples = 0;
  double loss = 0;  // sum over the parts
};

// One of the ranks of a job, each of which computes parts and owns a shard of the parameters. Rank
// 0 hands out the parts and hears of each that has been applied by all owners. Requests and
// gradients of other ranks are answered in the messenger's thread while this rank computes.
// Functions of the worker: one thread, but for next_part(). Waiting ends with the error of the
// watchdog, or of what the messenger's thread could not do.
class PartExchange {
 public:
  struct Options {
    int rank = 0, world_size = 1;
    int64_t max_staleness = 1;
    uint64_t shard_bytes = 0;
    // Applies a gradient to this rank's shard and returns the new shard; in the messenger's thread.
    std::function<Bytes(const Bytes& gradient, double learning_rate)> apply;
  };

  PartExchange(std::shared_ptr<plugins::host::Communicator> communicator, exec::Watchdog& watchdog,
               Options options);

  // Parts below `limit` may be taken from now on. Every rank gives the same limits.
  void open(int64_t limit);
  // Waits for the next part; nullopt when there is none left below the limit (once for each limit),
  // after stop() and after release(). Any one thread.
  std::optional<int64_t> next_part();
  void push(PartGradient gradient);
  // Waits until what was pushed has been applied everywhere; the shards as they are then.
  std::vector<Bytes> pull();
  // All ranks get no part any more.
  void stop(int signal);
  // On rank 0: waits until every part that was taken has been applied.
  void drain();

  // Of rank 0; nothing on others.
  PartProgress take_progress();
  int64_t taken();
  int signal();

  // next_part() returns.
  void release();
  // When all ranks have met after the last pull(): see exec::Messenger.
  void close() { messenger_.close(); }

 private:
  template <class Predicate>
  void wait(std::unique_lock<std::mutex>& lock, Predicate predicate);
  void receive(int from, exec::Message message);
  void receive_gradient(int from, const exec::Message& message);
  void receive_shard(int from, Bytes shard);
  void receive_done(const exec::Message& message);
  void grant();

  const Options options_;
  exec::Watchdog& watchdog_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // The worker's.
  int64_t limit_ = 0, ended_ = 0;  // of the parts that may be taken; that was reached
  bool released_ = false;
  std::optional<int64_t> ticket_;  // what rank 0 has answered; -1: none is left
  exec::Message done_;             // for rank 0, when the shards are back
  std::vector<Bytes> shards_;
  int missing_ = 0;  // shards
  // Rank 0's.
  parallel::PartCounter counter_;
  struct Request {
    int rank;
    int64_t limit;
  };
  std::deque<Request> requests_;
  PartProgress progress_;
  int signal_ = 0;
  exec::Messenger messenger_;  // the last: its thread uses the others
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_PART_EXCHANGE_H_
