// What a job of one or several ranks computed, step by step, to compare with the same job on
// another number of ranks.
#ifndef TESTS_RUNTIME_TRAIN_RANKS_TRACE_H_
#define TESTS_RUNTIME_TRAIN_RANKS_TRACE_H_

#include <functional>
#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/data/safetensors.h"

namespace runtime::train {

class Trainer;

// Of every step the loss ("003 loss"), the reduced gradients ("003 gradient fc1.weight") and the
// parameters and statistics after it ("003 weight fc1.weight"); at the end "validation" (loss,
// accuracy, samples). The loss is that of the step itself, "loss of gradients" the one reported
// beside the gradients.
using Trace = data::TensorFile;

struct TraceOptions {
  config::Config config;               // of which launch.ranks and comm.backend say how it is run
  std::vector<std::string> arguments;  // of this program, for ranks that are processes
  // Called after each step on every rank.
  std::function<void(Trainer&, int rank, int step)> after_step = nullptr;
  int steps = 20;
  // The collectives of this layer or bucket ("bucket 0") are left out on every rank.
  std::string left_out;
  // After this step one bit of the last number of a parameter (empty: the first one) is flipped on
  // rank 1, if it has it, and replicas are checked.
  int flip_after = -1;
  std::string flipped;
};

struct TraceResult {
  int exit_code = 0;  // of the processes, if the ranks were some
  Trace trace;        // of rank 0; empty where it ran in another process
  // Samples of a full batch that rank 0 computes.
  int64_t share = 0;
};

TraceResult record(const TraceOptions& options);

// The tensor of `expected` that differs most, by norm of the difference over norm.
struct Difference {
  std::string name;
  double relative = 0;
};
// Throws std::runtime_error if the traces do not have the same tensors.
Difference largest_difference(const Trace& actual, const Trace& expected);

// Mean of the losses of steps [first, first + count).
double mean_loss(const Trace& trace, int first, int count);

}  // namespace runtime::train

#endif  // TESTS_RUNTIME_TRAIN_RANKS_TRACE_H_
