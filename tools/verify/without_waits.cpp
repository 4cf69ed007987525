// Runs a step with and without waits, and names the first result that differs.
#include <limits>

#include "runtime/exec/encode.h"
#include "runtime/train/rank/micro_steps.h"
#include "runtime/train/weights.h"
#include "tools/verify/reduce.h"

namespace runtime::verify {

namespace {

constexpr const char* kLoss = "loss";

enum class Pace { kStepByStep, kWithoutWaits };

// Returns the results of a step: its loss, and all tensors with which the next step begins.
Tensors run_step(train::StepPrograms& programs, const StepStart& start, Pace pace) {
  StepTrace trace(programs);
  trace.set_state(start.state, start.source);
  double loss = 0;
  const auto run = [&](train::StepProgram& p) {
    if (pace == Pace::kWithoutWaits)
      p.program->run(programs.stream());
    else
      p.program->run_observed(programs.stream(), [](size_t) {});
    loss = programs.read_scalar(p, p.values.loss);
  };
  train::for_each_micro_step(programs, step::Purpose::kTraining, start.batch, start.learning_rate,
                             start.step, nullptr, run);
  Tensors left = trace.state();
  left[kLoss] = {RT_FLOAT64, {1}, exec::encode({loss}, RT_FLOAT64)};
  return left;
}

// Returns the name of the tensor and, if it is a buffer of all trained parameters or of the
// optimizer's state for them, also the name of the parameter that `element` belongs to.
std::string name_of(train::StepPrograms& programs, const std::string& name,
                    const data::HostTensor& tensor, size_t element) {
  const train::StepProgram& p = programs.any_compiled();
  for (const model::Parameter& parameter : p.values.parameters) {
    const graph::Value& value = p.graph().value(parameter.value);
    if (value.base != p.values.buffers.parameters || value.base == graph::kNone ||
        graph::canonical_bytes(p.graph().value(value.base)) != tensor.bytes.size())
      continue;
    const uint64_t at = element * graph::dtype_bytes(value.dtype);
    if (at >= value.offset && at < value.offset + graph::canonical_bytes(value))
      return name + " of " + parameter.name;
  }
  return name;
}

// Puts the loss first, because a step computes it first.
std::vector<std::string> in_order(const Tensors& tensors) {
  std::vector<std::string> names = {kLoss};
  for (const auto& [name, tensor] : tensors) {
    if (name != kLoss) names.push_back(name);
  }
  return names;
}

}  // namespace

std::optional<SynchronizationFault> compare_without_waits(train::StepPrograms& programs,
                                                          const StepStart& start) {
  const Tensors expected = run_step(programs, start, Pace::kStepByStep);
  const double tolerance = StepTrace(programs).tolerance();
  const Bound bound{tolerance, 0, std::numeric_limits<double>::infinity()};
  for (int run = 0; run < 2; ++run) {
    const Tensors actual = run_step(programs, start, Pace::kWithoutWaits);
    for (const std::string& name : in_order(actual)) {
      const data::HostTensor& tensor = actual.at(name);
      const Verdict v = compare(tensor, expected.at(name), bound, true);
      if (v.right) continue;
      const size_t element = v.index.empty() ? 0 : static_cast<size_t>(v.index.back());
      return SynchronizationFault{name_of(programs, name, tensor, element), v.error, v.bound};
    }
  }
  return std::nullopt;
}

}  // namespace runtime::verify
