// The moving average of the weights, optimizer.average_decay.
#ifndef RUNTIME_TRAIN_RANK_WEIGHT_AVERAGE_H_
#define RUNTIME_TRAIN_RANK_WEIGHT_AVERAGE_H_

#include <cstddef>
#include <vector>

#include "runtime/train/rank/whole_parameters.h"

namespace runtime::train {

// The buffer "average" of a rank, which each step moves towards the weights; ranks hold ZeRO
// partitions of it from stage 1 on. Every rank makes the same calls in the same order. Used by the
// thread of the programs, which must outlive it. Equivalent to: timm's ModelEma.
class WeightAverage {
 public:
  WeightAverage(RankModel& model, WholeParameters& parameters)
      : model_(model), parameters_(parameters) {}

  // Whether the run has one.
  bool exists() const {
    return model_.setup().config.optimizer.average_decay > 0 && !model_.setup().inference;
  }
  // Begins the average with the present weights. Does nothing without an average.
  void start();
  // Puts the average in the place of the weights; returns the weights of this rank for restore().
  // Running statistics of batch normalisation stay as they are. Waits for queued steps.
  std::vector<std::byte> put_in_place();
  void restore(const std::vector<std::byte>& weights);

 private:
  RankModel& model_;
  WholeParameters& parameters_;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_RANK_WEIGHT_AVERAGE_H_
