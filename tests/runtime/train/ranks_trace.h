// Records what a job of one or several ranks computes in each step, to compare it with another
// number of ranks.
#ifndef TESTS_RUNTIME_TRAIN_RANKS_TRACE_H_
#define TESTS_RUNTIME_TRAIN_RANKS_TRACE_H_

#include <functional>
#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/data/safetensors.h"

namespace runtime::train {

class StepPrograms;
class Trainer;

// For every step the loss ("003 loss"), the reduced gradients ("003 gradient fc1.weight") and the
// parameters and statistics after the step ("003 weight fc1.weight"); at the end "validation"
// (loss, accuracy, samples, then validation.metrics and the confusion matrix). The loss is that of
// the step itself; "loss of gradients" is the one that is reported with the gradients.
using Trace = data::TensorFile;

struct TraceOptions {
  config::Config config;               // launch.ranks and comm.backend say how the job is run
  std::vector<std::string> arguments;  // arguments of this program, for ranks that are processes
  // Called on every rank after each step.
  std::function<void(StepPrograms&, Trainer&, int rank, int step)> after_step = nullptr;
  int steps = 20;
  // The layer or bucket ("bucket 0") whose collectives are left out on every rank.
  std::string left_out;
  // After this step one bit of the last number of the parameter `flipped` (empty: the first one) is
  // flipped on rank 1, if it holds that number, and replicas are checked.
  int flip_after = -1;
  std::string flipped;
};

struct TraceResult {
  int exit_code = 0;  // of the processes, if ranks are processes
  Trace trace;        // of rank 0; empty if it ran in another process
  // The number of samples of a full batch that rank 0 computes.
  int64_t share = 0;
};

TraceResult record(const TraceOptions& options);

// The tensor that differs most from `expected`, by the norm of the difference divided by the norm
// of `expected`.
struct Difference {
  std::string name;
  double relative = 0;
};
// Throws std::runtime_error if the traces do not have the same tensors.
Difference largest_difference(const Trace& actual, const Trace& expected);

// The mean of the losses of steps [first, first + count).
double mean_loss(const Trace& trace, int first, int count);

}  // namespace runtime::train

#endif  // TESTS_RUNTIME_TRAIN_RANKS_TRACE_H_
