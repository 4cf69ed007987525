// One compiled step form.
#ifndef RUNTIME_TRAIN_RANK_STEP_PROGRAM_H_
#define RUNTIME_TRAIN_RANK_STEP_PROGRAM_H_

#include <memory>

#include "runtime/exec/program.h"
#include "runtime/step/step.h"

namespace runtime::train {

// One step form's values and compiled program.
struct StepProgram {
  step::StepValues values;
  std::unique_ptr<exec::Program> program;
  uint64_t input_bytes = 0;  // bytes that a step copies from the host, see exec::Upload

  const graph::Graph& graph() const { return program->graph(); }
  // The address of a value; nullptr for kNone and for what this rank does not use of the model.
  void* address(graph::ValueId id) const {
    return id == graph::kNone ? nullptr : program->address(id);
  }
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_RANK_STEP_PROGRAM_H_
