// The loop over the micro-steps of a global batch.
#ifndef RUNTIME_TRAIN_RANK_MICRO_STEPS_H_
#define RUNTIME_TRAIN_RANK_MICRO_STEPS_H_

#include "runtime/train/rank/step_programs.h"

namespace runtime::train {

// Goes through this rank's micro-steps of a global batch, whose gradients add up. `purpose` is that
// of the last one: with kTraining it updates the parameters, for example. For each it uploads its
// rows of the batch and the numbers of step `step` (from 0), and calls run(StepProgram&), which
// runs the program. `spans`, unless it is nullptr, records the uploads. Allocates no memory once
// the programs of the batch exist.
template <typename Run>
void for_each_micro_step(StepPrograms& programs, step::Purpose purpose, const data::Batch& batch,
                         double learning_rate, int64_t step, exec::SpanRecorder* spans, Run&& run) {
  int64_t row = 0;
  for (const step::StepForm& form : programs.forms(purpose, batch)) {
    StepProgram& program = programs.compiled(form);
    programs.upload(program, batch, row, learning_rate, step, spans);
    run(program);
    row += form.rows * programs.setup().strategy.batch.shards_of_rank();
  }
}

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_RANK_MICRO_STEPS_H_
