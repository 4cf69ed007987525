// From a step that a device computes wrong to the operation that is at fault.
#ifndef RUNTIME_ANALYSIS_REDUCE_H_
#define RUNTIME_ANALYSIS_REDUCE_H_

#include <optional>
#include <string>

#include "runtime/analysis/case.h"
#include "runtime/train/step_trace.h"

namespace runtime::analysis {

// One step of a run, from a state that is trusted.
struct StepStart {
  const train::Tensors& state;
  std::string source;  // of the state, for messages
  const data::Batch& batch;
  double learning_rate = 0;
  int64_t step = 0;  // from 0
};

enum class Blame {
  kNobody,     // every operation is within its bound: what differs is rounding that has grown
  kOperation,  // one computes wrong numbers, alone too: `found`
  kBetween     // each is right alone, and yet the step is not: `value`, `explanation`
};

struct Reduction {
  Blame blame = Blame::kNobody;
  size_t operations = 0, judged = 0;  // of the step; those that could be compared
  std::optional<Case> found;
  Verdict verdict;  // of what is to blame; kNobody: the one that came nearest to its bound
  std::string layer, operation;  // the same
  std::string value, explanation;
};

// Runs the step on the trainer's device operation by operation; each is compared with its
// definition, from what the device itself has given it. The first one beyond its bound is run once
// more alone, in memory of its own, and cut down to few rows.
Reduction reduce_step(train::Trainer& trainer, const Judge& judge, const StepStart& start);

// A value that a step leaves behind otherwise when nobody waits after each operation.
struct Hurried {
  std::string value;                   // "adam_m of fc1.weight"
  double difference = 0, allowed = 0;  // relative, in the 2-norm
};

// nullopt: the step is the same whether or not the host waits after each of its operations. The
// first run launches all of them, the second may replay a recording.
std::optional<Hurried> compare_hurried(train::Trainer& trainer, const StepStart& start);

}  // namespace runtime::analysis

#endif  // RUNTIME_ANALYSIS_REDUCE_H_
