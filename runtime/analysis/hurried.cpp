#include <limits>

#include "runtime/analysis/reduce.h"
#include "runtime/train/step_programs.h"
#include "runtime/train/weights.h"

namespace runtime::analysis {

namespace {

enum class Pace { kStepByStep, kHurried };

// What a step leaves behind: its loss, and all that the next one begins with.
train::Tensors run_step(train::Trainer& trainer, const StepStart& start, Pace pace) {
  train::StepPrograms& programs = trainer.programs();
  train::StepTrace trace(trainer);
  trace.set_state(start.state, start.source);
  double loss = 0;
  int64_t row = 0;
  for (const train::StepKey& key : programs.keys(train::Purpose::kTraining, start.batch)) {
    train::StepProgram& p = programs.get(key);
    programs.upload(p, start.batch, row, start.learning_rate, start.step);
    if (pace == Pace::kHurried)
      p.program->run(programs.stream);
    else
      p.program->run_observed(programs.stream, [](size_t) {});
    row += key.rows * programs.split.shards_of_rank();
    loss = programs.read_scalar(p, p.values.loss);
  }
  train::Tensors left = trace.state();
  left["loss"] = {RT_FLOAT64, {1}, train::encode({loss}, RT_FLOAT64)};
  return left;
}

// Trained parameters lie in one buffer: the name of the one that holds an element of it.
std::string parameter_at(train::StepPrograms& programs, const std::string& buffer,
                         int64_t element) {
  const train::StepGraph& step = programs.any_program().step;
  for (const model::Parameter& parameter : step.parameters) {
    const graph::Value& value = step.graph.value(parameter.value);
    if (value.base == graph::kNone || step.graph.value(value.base).name != buffer) continue;
    const uint64_t at = static_cast<uint64_t>(element) * graph::dtype_bytes(value.dtype);
    if (at >= value.offset && at < value.offset + graph::canonical_bytes(value))
      return parameter.name;
  }
  return buffer;
}

}  // namespace

std::optional<Hurried> compare_hurried(train::Trainer& trainer, const StepStart& start) {
  const train::Tensors expected = run_step(trainer, start, Pace::kStepByStep);
  const double tolerance = train::StepTrace(trainer).tolerance();
  const Bound bound{tolerance, 0, std::numeric_limits<double>::infinity()};
  for (int run = 0; run < 2; ++run) {
    const train::Tensors actual = run_step(trainer, start, Pace::kHurried);
    for (const auto& [name, tensor] : actual) {
      const Verdict v = compare(tensor, expected.at(name), bound, true);
      if (v.right) continue;
      const int64_t element = v.index.empty() ? 0 : v.index.back();
      return Hurried{parameter_at(trainer.programs(), name, element), v.error, v.bound};
    }
  }
  return std::nullopt;
}

}  // namespace runtime::analysis
