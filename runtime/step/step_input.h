// The input of the step compiler.
#ifndef RUNTIME_STEP_STEP_INPUT_H_
#define RUNTIME_STEP_STEP_INPUT_H_

#include "runtime/model/layer.h"
#include "runtime/step/step.h"
#include "runtime/step/strategy.h"

namespace runtime::step {

// Read by every pass. All references must outlive the compilation.
struct StepInput {
  const model::Model& model;
  const Recipe& recipe;
  const Strategy& strategy;
  const StepForm& form;
};

}  // namespace runtime::step

#endif  // RUNTIME_STEP_STEP_INPUT_H_
