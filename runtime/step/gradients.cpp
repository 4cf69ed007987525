// The backward pass of the step.
#include "runtime/error.h"
#include "runtime/graph/autodiff.h"
#include "runtime/step/freeze.h"
#include "runtime/step/passes.h"

namespace runtime::step {

using graph::kNone;
using graph::ValueId;
using graph::ValueKind;

namespace {

// The gradient of the loss: a persistent 1, or with float16 the scale of the loss.
ValueId loss_gradient(Step& step, const Precision& precision) {
  StepValues& values = step.values;
  values.one = step.graph.add_value("one", ValueKind::kState, {1}, precision.parameters);
  if (precision.activations != RT_FLOAT16) return values.one;
  values.loss_scaling =
      step.graph.add_value(kLossScaling, ValueKind::kState, {3}, precision.parameters);
  graph::Value scale;
  scale.dtype = precision.parameters;
  scale.dims = {1};
  scale.base = values.loss_scaling;
  return step.graph.add_value(std::move(scale));
}

}  // namespace

void differentiate(Step& step, const StepInput& input) {
  if (!input.form.backward()) return;
  const std::vector<std::string>& freeze = input.training.freeze;
  StepValues& values = step.values;
  check_patterns(freeze, input.training.optimizer, values.parameters);
  std::vector<ValueId> wanted;
  for (const model::Parameter& p : values.parameters) {
    if (p.trainable && !matches_any(freeze, p.name)) wanted.push_back(p.value);
  }
  if (wanted.empty()) {
    throw ConfigurationError(freeze.empty()
                                 ? "model.layers have no parameter to train; add a layer that has "
                                   "weights, such as a linear one"
                                 : "model.freeze leaves no parameter to train");
  }
  values.loss_gradient = loss_gradient(step, input.strategy.precision);
  const auto gradients =
      graph::differentiate(step.graph, values.loss, values.loss_gradient, wanted);
  for (const model::Parameter& p : values.parameters) {
    const auto it = gradients.find(p.value);
    values.gradients.push_back(it == gradients.end() ? kNone : it->second);
  }
}

}  // namespace runtime::step
