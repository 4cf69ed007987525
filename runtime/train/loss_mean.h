// The mean loss of several steps.
#ifndef RUNTIME_TRAIN_LOSS_MEAN_H_
#define RUNTIME_TRAIN_LOSS_MEAN_H_

#include <cstdint>
#include <limits>

#include "runtime/data/batch.h"

namespace runtime::train {

// Returns the weight of a step's loss: the weight of the labels of its global batch, in full global
// batches of labels that weigh 1. It is 0 if no label counts.
inline double weight_of_step(const data::Batch& batch, int64_t global_batch_size) {
  return data::weight_of(batch) / static_cast<double>(global_batch_size);
}

// The mean loss of steps over their labels, so that a step with few labels counts for little. One
// thread.
struct LossMean {
  double sum = 0;     // of loss times weight
  double weight = 0;  // of the steps, see weight_of_step()
  int64_t steps = 0;

  void add(double loss, double weight_of_loss) {
    if (weight_of_loss > 0) sum += loss * weight_of_loss;
    weight += weight_of_loss;
    ++steps;
  }
  void add(const LossMean& other) {
    sum += other.sum;
    weight += other.weight;
    steps += other.steps;
  }
  // Returns NaN if no label counts.
  double mean() const {
    return weight > 0 ? sum / weight : std::numeric_limits<double>::quiet_NaN();
  }
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_LOSS_MEAN_H_
