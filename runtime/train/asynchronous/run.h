// Stale-synchronous SGD: ranks that do not wait for each other in every step.
#ifndef RUNTIME_TRAIN_ASYNCHRONOUS_RUN_H_
#define RUNTIME_TRAIN_ASYNCHRONOUS_RUN_H_

#include <functional>
#include <memory>
#include <vector>

#include "runtime/data/loader.h"
#include "runtime/train/asynchronous/exchange.h"
#include "runtime/train/asynchronous/owned_update.h"
#include "runtime/train/checkpoint/checkpoints.h"
#include "runtime/train/profiler.h"
#include "runtime/train/schedule.h"
#include "runtime/train/trainer.h"

namespace runtime::train {

class StepPrograms;

// A work item that this rank has computed: one slice of a step's global batch.
struct WorkItem {
  int64_t step = 0;   // from 0
  int64_t epoch = 0;  // from 0
  double learning_rate = 0;
  double loss = 0;    // what this work item adds to the loss of its step
  double weight = 1;  // of the step's loss in a mean, see loss_mean.h
};

// One rank's part in stale-synchronous SGD, see README.md. Used by one thread, that of the trainer
// and of its programs, which must outlive this object. If it is destroyed without close(), the
// communicator is aborted, as after an error.
class Asynchronous {
 public:
  // Goes on after trainer.steps_done() steps. `resumed`: the checkpoint that has the optimizer
  // state of then, whose parameters the trainer has got; nullptr: none, the run begins.
  Asynchronous(const config::Config& config, std::shared_ptr<const data::Dataset> dataset,
               StepPrograms& programs, Trainer& trainer, const Resumed* resumed = nullptr);
  ~Asynchronous();

  int64_t batches_per_epoch() const { return loader_->batches_per_epoch(); }

  // Computes work items of the steps before `end` until none is left, with the rates of `schedule`.
  // Calls `done` after each; it
  // returns the signal that ends the run, or 0. A signal and pause() let the steps that were begun
  // be done first. On return no update is in flight, all ranks have the same parameters, and
  // trainer.steps_done() counts the steps that were done. Returns the signal that has ended the
  // run, or 0. `profiler`, unless it is nullptr, is told of each work item as of a step.
  int run(int64_t end, const Schedule& schedule, const std::function<int(const WorkItem&)>& done,
          Profiler* profiler = nullptr);
  // The number of updates of this rank's range, those before the checkpoint included.
  int64_t updates() const { return owned_->updates(); }
  // Makes run() return on all ranks before `end`. Only rank 0's call does so.
  void pause();
  // On rank 0 the work of all ranks since the last call; empty on other ranks.
  WorkProgress take_progress() { return exchange_->take_progress(); }
  // To call when nothing is left to run. Waits for the other ranks.
  void close();

 private:
  data::LoaderOptions loader_options(const Resumed* resumed);
  const data::Batch& next_batch();
  bool one_item(const Schedule& schedule, const std::function<int(const WorkItem&)>& done);
  void exchange(ItemGradient gradient);
  void add_span(exec::SpanKind kind, int64_t begin);
  WorkItem compute(const data::Batch& batch, const Schedule& schedule);
  ItemGradient gradient_of(const WorkItem& item, const data::Batch& batch);
  void receive_parameters();
  void write_parameters(const std::vector<Bytes>& ranges);
  int synchronise();

  const config::Config& config_;
  Trainer& trainer_;
  StepPrograms& programs_;
  RankModel& model_;
  const RankSetup& setup_;
  const int world_size_;
  exec::Collectives& collectives_;
  std::unique_ptr<OwnedUpdate> owned_;
  std::unique_ptr<WorkExchange> exchange_;
  std::unique_ptr<data::Loader> loader_;  // its thread requests work items from exchange_
  bool pushed_ = false;  // run() has pushed a gradient whose parameters have not been received
  exec::SpanRecorder* spans_ = nullptr;  // where the work item is recorded; nullptr: nowhere
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_ASYNCHRONOUS_RUN_H_
