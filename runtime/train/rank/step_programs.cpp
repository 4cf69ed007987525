// Compiles the program of a step form when it first occurs, over buffers that all forms share.
#include "runtime/train/rank/step_programs.h"

#include <algorithm>

#include "runtime/exec/encode.h"
#include "runtime/train/formatted.h"

namespace runtime::train {

using graph::ValueId;
using step::kLossScaling;
using step::Purpose;
using step::StepForm;

StepPrograms::StepPrograms(RankSetup setup)
    : setup_(std::move(setup)), arena_(setup_.device, setup_.planned) {
  if (setup_.config.debug.deterministic && setup_.has_batch_norm && setup_.world_size() > 1) {
    notes_.push_back(
        "debug.deterministic implies parallelism.sync_batch_norm: batch_norm normalises over the "
        "global batch, so that the bits do not depend on the number of ranks");
  }
}

const std::vector<StepForm>& StepPrograms::forms(Purpose purpose, const data::Batch& batch) {
  const bool padded = batch.valid < batch.rows;
  const auto [known, is_new] = forms_.try_emplace({purpose, batch.global_rows, batch.rows, padded});
  std::vector<StepForm>& forms = known->second;
  if (!is_new) return forms;
  const parallel::BatchSplit& split = setup_.strategy.batch;
  const int64_t steps = parallel::micro_steps(batch.global_rows, split);
  StepForm form = setup_.whole(purpose, batch.rows / (steps * split.shards_of_rank()));
  form.split_batch_norm |= setup_.has_batch_norm && padded;
  form.l2_share /= static_cast<double>(steps);
  forms.assign(steps, form);
  for (int64_t i = 0; i < steps; ++i) {
    forms[i].accumulate = i > 0;
    if (i + 1 < steps) forms[i].purpose = Purpose::kMicroStep;
  }
  return forms;
}

const std::vector<StepForm>& StepPrograms::training_step(int64_t global_rows,
                                                         int64_t global_valid) {
  data::Batch batch;
  batch.global_rows = global_rows;
  const std::vector<int64_t> rows = parallel::rows_of_rank(global_rows, setup_.strategy.batch);
  batch.rows = static_cast<int64_t>(rows.size());
  batch.valid = std::count_if(rows.begin(), rows.end(), [&](int64_t position) {
    return position >= 0 && position < global_valid;
  });
  return forms(Purpose::kTraining, batch);
}

StepProgram& StepPrograms::compiled(const StepForm& form, const step::AfterPass& after) {
  const auto it = programs_.find(form);
  if (it != programs_.end()) return it->second;
  StepProgram p;
  exec::Storage& storage = rank_model_.storage();
  const bool loss_scaled = storage.find(kLossScaling) != nullptr;
  // Nothing else runs while candidates are measured, and a larger arena would replace the one that
  // queued work still uses.
  stream().synchronize();
  exec::DeviceTarget target(setup_.device, setup_.options.target);
  step::Step step =
      step::compile_step({setup_.model, setup_.training, setup_.strategy, form}, target, after);
  p.values = std::move(step.values);
  p.program = std::make_unique<exec::Program>(std::move(step.graph), setup_.device, storage, arena_,
                                              setup_.options);
  for (const graph::Value& value : p.graph().values) {
    if (value.kind == graph::ValueKind::kInput)
      p.input_bytes += exec::Upload::rounded(graph::canonical_bytes(value));
  }
  most_input_bytes_ = std::max(most_input_bytes_, p.input_bytes);
  for (const auto& notes : {step.notes, target.notes()}) add_notes(notes);
  const auto write = [&](ValueId id, const std::vector<double>& numbers) {
    if (void* const to = p.address(id))
      exec::write_memory(stream(), to, exec::encode(numbers, setup_.dtype()));
  };
  write(p.values.one, {1.0});
  if (!loss_scaled) write(p.values.loss_scaling, {RT_LOSS_SCALE_INITIAL, 0, 0});
  return programs_.emplace(form, std::move(p)).first->second;
}

void StepPrograms::add_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) {
    if (std::find(notes_.begin(), notes_.end(), note) == notes_.end()) notes_.push_back(note);
  }
}

StepProgram& StepPrograms::any_compiled(const step::AfterPass& after) {
  StepProgram& program = compiled(setup_.form_with_parameters(), after);
  rank_model_.describe(program);
  return program;
}

void StepPrograms::upload(StepProgram& p, const data::Batch& batch, int64_t first_row,
                          double learning_rate, int64_t step, exec::SpanRecorder* spans) {
  upload_.upload(p, batch, first_row, learning_rate, step, spans);
}

std::vector<std::byte> StepPrograms::read(const StepProgram& p, ValueId id) {
  const void* const address = p.address(id);
  if (address == nullptr) return {};
  return exec::read_memory(stream(), address, graph::canonical_bytes(p.graph().value(id)));
}

double StepPrograms::read_scalar(const StepProgram& p, ValueId id) {
  const std::vector<std::byte> bytes = read(p, id);
  if (setup_.dtype() == RT_FLOAT64)
    return without_sign_of_nan(*reinterpret_cast<const double*>(bytes.data()));
  return without_sign_of_nan(*reinterpret_cast<const float*>(bytes.data()));
}

const std::vector<StepForm>& full_step(StepPrograms& programs) {
  const int64_t rows = programs.setup().config.training.global_batch_size;
  return programs.training_step(rows, rows);
}

}  // namespace runtime::train
