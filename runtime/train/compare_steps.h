// Whether two devices compute the same step: what one has recorded against what the other computes.
#ifndef RUNTIME_TRAIN_COMPARE_STEPS_H_
#define RUNTIME_TRAIN_COMPARE_STEPS_H_

#include <optional>
#include <string>
#include <vector>

#include "runtime/train/step_trace.h"

namespace runtime::train {

struct RecordedStep {
  Tensors state;   // before it
  Tensors values;  // by the names of a StepTrace
  double loss = 0;
  double batch = 0;  // sum of the numbers in it, by which another batch is recognised
};

struct Difference {
  std::string layer, operation, tensor;
  std::vector<int64_t> dims;
  double relative = 0;  // ||actual - expected|| / ||expected||; infinite for NaN and other shapes
  struct Sample {
    std::vector<int64_t> index;
    double actual = 0, expected = 0;
  };
  std::vector<Sample> samples;  // of the elements that differ most
};

struct StepComparison {
  int64_t step = 0;  // from 0
  double loss = 0, expected_loss = 0;
  size_t compared = 0, left_out = 0;  // values; left out: those that only one side has
  Difference worst;
  std::optional<Difference> first;  // beyond the tolerance, in the order of execution
};

struct CompareOptions {
  double tolerance = 1e-4;
  // Every operation gets what was recorded, so that differences neither grow from layer to layer
  // nor decide on which side of zero a number lies.
  bool isolate = false;
  std::string source;  // of the record, for messages
};

RecordedStep record_step(StepTrace& trace, const data::Batch& batch, double learning_rate,
                         int64_t step);

// The same step from the recorded state, and with the recorded gradients of the parameters in its
// update, so that each part of it is compared for itself. Throws DataError if the record is of
// another model or batch.
StepComparison compare_step(StepTrace& trace, const RecordedStep& expected,
                            const data::Batch& batch, double learning_rate, int64_t step,
                            const CompareOptions& options);

// Steps in one file: "step/000/state/NAME", "step/000/value/NAME" and their numbers.
void add_step(data::TensorFile& file, int64_t step, RecordedStep recorded);
// Throws DataError if it has no such step; `path` is for the message.
RecordedStep take_step(data::TensorFile& file, int64_t step, const std::string& path);
int64_t count_steps(const data::TensorFile& file);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_COMPARE_STEPS_H_
