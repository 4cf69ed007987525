// Stale-synchronous SGD: ranks that do not wait for each other.
#ifndef RUNTIME_TRAIN_ASYNCHRONOUS_H_
#define RUNTIME_TRAIN_ASYNCHRONOUS_H_

#include <functional>
#include <memory>
#include <vector>

#include "runtime/data/loader.h"
#include "runtime/train/part_exchange.h"
#include "runtime/train/shard_update.h"
#include "runtime/train/trainer.h"

namespace runtime::train {

class StepPrograms;

// Whether ranks do not wait for each other in every step; else steps are those of Trainer::step().
bool is_asynchronous(const config::Config& config, int world_size);

// A part of a step that this rank has computed.
struct Part {
  int64_t step = 0;   // from 0
  int64_t epoch = 0;  // from 0
  double learning_rate = 0;
  double loss = 0;  // this part's share of the step's
};

// One rank's side, see README.md. One thread, that of the trainer, which outlives it. Destroyed
// without close() it ends the communicator, as after an error.
class Asynchronous {
 public:
  Asynchronous(const config::Config& config, std::shared_ptr<const data::Dataset> dataset,
               Trainer& trainer);
  ~Asynchronous();

  int64_t batches_per_epoch() const { return loader_->batches_per_epoch(); }

  // Takes parts of the steps before `end` until there is none; `done` is called after each that
  // this rank has computed and returns the signal that ends the run, or 0. Then, on all ranks, the
  // parameters are the same, and trainer.steps_done() counts the whole steps that were done.
  // Returns the signal that has ended it.
  int run(int64_t end, const std::function<int(const Part&)>& done);
  // What all ranks have done since the last call; on rank 0, nothing on others.
  PartProgress take_progress() { return exchange_->take_progress(); }
  // When nothing is left to run. Waits for the other ranks.
  void close();

 private:
  data::LoaderOptions loader_options();
  const data::Batch& next_batch();
  Part compute(const data::Batch& batch);
  PartGradient gradient_of(const Part& part, const data::Batch& batch);
  void receive_parameters();
  void write_parameters(const std::vector<Bytes>& shards);
  int synchronise();

  const config::Config& config_;
  Trainer& trainer_;
  StepPrograms& programs_;
  exec::Collectives& collectives_;
  std::unique_ptr<ShardUpdate> shard_;
  std::unique_ptr<PartExchange> exchange_;
  std::unique_ptr<data::Loader> loader_;  // its thread asks the exchange for parts
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_ASYNCHRONOUS_H_
