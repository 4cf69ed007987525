// The input of the step compiler: the model, and how a rank is to train or evaluate it.
#ifndef RUNTIME_STEP_STEP_INPUT_H_
#define RUNTIME_STEP_STEP_INPUT_H_

#include "runtime/model/layer.h"
#include "runtime/step/step.h"
#include "runtime/step/strategy.h"

namespace runtime::step {

// Every pass reads it and none changes it. All references must outlive the compilation.
struct StepInput {
  const model::Model& model;
  const TrainingSpec& training;
  const Strategy& strategy;
  const StepForm& form;
};

}  // namespace runtime::step

#endif  // RUNTIME_STEP_STEP_INPUT_H_
