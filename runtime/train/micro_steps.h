// The loop over the micro-steps of a global batch.
#ifndef RUNTIME_TRAIN_MICRO_STEPS_H_
#define RUNTIME_TRAIN_MICRO_STEPS_H_

#include "runtime/train/step_programs.h"

namespace runtime::train {

// This rank's micro-steps of a global batch, whose gradients add up. `purpose` is that of the last
// one: with kTraining it updates the parameters, for example. `spans`, unless it is nullptr,
// records the uploads. `programs` must outlive it.
class MicroSteps {
 public:
  MicroSteps(StepPrograms& programs, step::Purpose purpose, exec::SpanRecorder* spans = nullptr)
      : programs_(programs), purpose_(purpose), spans_(spans) {}

  // For each micro-step in turn uploads its rows of the batch and the numbers of step `step` (from
  // 0), and calls visit(StepProgram&), which runs the program. Allocates no memory once the
  // programs of the batch exist.
  template <typename Visit>
  void run(const data::Batch& batch, double learning_rate, int64_t step, Visit&& visit) {
    int64_t row = 0;
    for (const step::StepForm& form : programs_.forms(purpose_, batch)) {
      StepProgram& program = programs_.get(form);
      programs_.upload(program, batch, row, learning_rate, step, spans_);
      visit(program);
      row += form.rows * programs_.strategy().batch.shards_of_rank();
    }
  }

 private:
  StepPrograms& programs_;
  const step::Purpose purpose_;
  exec::SpanRecorder* const spans_;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_MICRO_STEPS_H_
