// Checks whether two devices compute the same step: compares a recorded step with a computed one.
#ifndef TOOLS_VERIFY_COMPARE_STEPS_H_
#define TOOLS_VERIFY_COMPARE_STEPS_H_

#include <optional>
#include <string>
#include <vector>

#include "tools/verify/step_trace.h"

namespace runtime::verify {

// One step as a device has computed it.
struct RecordedStep {
  Tensors state;   // before the step
  Tensors values;  // by the names of a StepTrace
  double loss = 0;
  double batch = 0;  // sum of the numbers in the batch, to recognise another batch
};

// How much one value differs.
struct Difference {
  std::string layer, operation, tensor;
  std::vector<int64_t> dims;
  double relative = 0;  // ||actual - expected|| / ||expected||; infinite for NaN and other shapes
  struct Sample {
    std::vector<int64_t> index;
    double actual = 0, expected = 0;
  };
  std::vector<Sample> samples;  // the elements that differ most
};

// The result of comparing one step.
struct StepComparison {
  int64_t step = 0;  // from 0
  double loss = 0, expected_loss = 0;
  size_t compared = 0, left_out = 0;       // numbers of values; left_out: on one side only
  std::vector<std::string> only_recorded;  // names of values that the step did not write
  Difference worst;
  std::optional<Difference> first;  // the first beyond the tolerance, in execution order
};

// Input of compare_step().
struct CompareOptions {
  double tolerance = 1e-4;
  // Replaces every value by the recorded one after it was compared, so that differences neither
  // grow from layer to layer nor decide on which side of zero a number lies.
  bool isolate = false;
  std::string source;  // where the record is from, for messages
};

// The sum that RecordedStep::batch holds.
double sum_of(const data::Batch& batch);

// Runs a step and records it. `step` counts from 0.
RecordedStep record_step(StepTrace& trace, const data::Batch& batch, double learning_rate,
                         int64_t step);

// Runs the same step from the recorded state and compares each value. The update gets the recorded
// gradients of the parameters, so that forward, backward and update are each compared by
// themselves. Throws DataError if the record is of another model or batch.
StepComparison compare_step(StepTrace& trace, const RecordedStep& expected,
                            const data::Batch& batch, double learning_rate, int64_t step,
                            const CompareOptions& options);

// Stores a step in a file: "step/000/state/NAME", "step/000/value/NAME" and its numbers.
void add_step(data::TensorFile& file, int64_t step, RecordedStep&& recorded);
// Removes a step from the file's tensors and returns it. Throws DataError, which names `path`, if
// the file lacks it.
RecordedStep take_step(data::TensorFile& file, int64_t step, const std::string& path);
// The number of steps in the file.
int64_t count_steps(const data::TensorFile& file);

}  // namespace runtime::verify

#endif  // TOOLS_VERIFY_COMPARE_STEPS_H_
