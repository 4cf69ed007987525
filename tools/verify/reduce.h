// Search from a step that a device computes wrong to the operation that is at fault.
#ifndef TOOLS_VERIFY_REDUCE_H_
#define TOOLS_VERIFY_REDUCE_H_

#include <optional>
#include <string>

#include "tools/verify/case.h"
#include "tools/verify/step_trace.h"

namespace runtime::verify {

// One step of a run, beginning from a trusted state. Everything is borrowed.
struct StepStart {
  const Tensors& state;
  std::string source;  // where the state is from, for messages
  const data::Batch& batch;
  double learning_rate = 0;
  int64_t step = 0;  // from 0
};

// What the search has found.
enum class Blame {
  kNobody,     // every operation is within its bound: rounding differences have grown
  kOperation,  // one operation computes wrong numbers, even alone: `found`
  kBetween     // each operation is right alone, but the step is not: `value`, `explanation`
};

// The result of reduce_step().
struct Reduction {
  Blame blame = Blame::kNobody;
  size_t operations = 0, judged = 0;  // operations of the step; those that could be compared
  std::optional<Case> found;
  Verdict verdict;  // on the operation to blame; kNobody: on the one that came nearest to its bound
  std::string layer, operation;    // of the same operation
  std::string value, explanation;  // kBetween: name of the value, and what happened to it
};

// Runs the step on the device one operation after the other. Each result is compared with
// the definition of its operation, computed from the operands that the device itself produced. The
// first operation beyond its bound is run once more alone, in memory of its own, and reduced to few
// rows.
Reduction reduce_step(train::StepPrograms& programs, const Judge& judge, const StepStart& start);

// A value that differs after a step in which the host does not wait after each operation.
struct SynchronizationFault {
  std::string value;                   // "adam_m of fc1.weight"
  double difference = 0, allowed = 0;  // relative, in the 2-norm
};

// Returns nothing if the results of the step are the same whether or not the host waits after each
// operation. Two runs do not wait: the first launches all operations, and the second may replay a
// recording.
std::optional<SynchronizationFault> compare_without_waits(train::StepPrograms& programs,
                                                          const StepStart& start);

}  // namespace runtime::verify

#endif  // TOOLS_VERIFY_REDUCE_H_
