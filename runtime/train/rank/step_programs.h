// The programs of a rank, one for each step form, over shared storage.
#ifndef RUNTIME_TRAIN_RANK_STEP_PROGRAMS_H_
#define RUNTIME_TRAIN_RANK_STEP_PROGRAMS_H_

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "plugins/host/drain.h"
#include "runtime/data/loader.h"
#include "runtime/step/compile_step.h"
#include "runtime/train/rank/batch_upload.h"
#include "runtime/train/rank/rank_model.h"
#include "runtime/train/rank/rank_setup.h"
#include "runtime/train/rank/step_program.h"

namespace runtime::train {

// A cache of programs by step form, and what they run on. A Trainer runs them for training; tools
// that look into a step use them directly. Used by one thread.
class StepPrograms {
 public:
  explicit StepPrograms(RankSetup setup);

  // The step forms of a rank's micro-steps of a global batch, in order. Owned by this object.
  const std::vector<step::StepForm>& forms(step::Purpose purpose, const data::Batch& batch);
  // The same for a training step of a global batch of so many rows, of which the first
  // `global_valid` are samples.
  const std::vector<step::StepForm>& training_step(int64_t global_rows, int64_t global_valid);
  // The program of a step form. The first call compiles it, and calls `after` after each pass; if
  // the programs contain collectives, all ranks must make that call. Owned by this object.
  StepProgram& compiled(const step::StepForm& form, const step::AfterPass& after = nullptr);
  // compiled() of RankSetup::form_with_parameters(); from then on rank_model() knows what this rank
  // holds.
  StepProgram& any_compiled(const step::AfterPass& after = nullptr);

  // See BatchUpload.
  void upload(StepProgram& program, const data::Batch& batch, int64_t first_row,
              double learning_rate, int64_t step, exec::SpanRecorder* spans = nullptr);
  // A value in canonical layout; empty where this rank does not use it. Waits for the stream.
  std::vector<std::byte> read(const StepProgram& program, graph::ValueId id);
  double read_scalar(const StepProgram& program, graph::ValueId id);

  const RankSetup& setup() const { return setup_; }
  // Gives ranks shares of a batch in proportion to these speeds, one for each rank of the data
  // axis. To be called before the first program that updates is made.
  void set_speeds(std::vector<double> speeds) { setup_.strategy.batch.weights = std::move(speeds); }
  RankModel& rank_model() { return rank_model_; }
  plugins::host::Stream& stream() { return rank_model_.stream(); }
  exec::Arena& arena() { return arena_; }
  uint64_t most_input_bytes() const { return most_input_bytes_; }  // of the programs so far
  // Lines for the log: replaced operations, layers that are not split.
  const std::vector<std::string>& notes() const { return notes_; }
  void add_notes(const std::vector<std::string>& notes);  // those that are new

 private:
  RankSetup setup_;
  RankModel rank_model_{setup_};
  exec::Arena arena_;
  uint64_t most_input_bytes_ = 0;
  std::vector<std::string> notes_;
  std::map<step::StepForm, StepProgram> programs_;
  // By purpose, rows of the global batch, rows of this rank, and whether some rows are padding.
  std::map<std::tuple<step::Purpose, int64_t, int64_t, bool>, std::vector<step::StepForm>> forms_;
  BatchUpload upload_{setup_, stream()};
  plugins::host::Drain drain_{stream()};  // last: the work of the stream uses everything above
};

// training_step() of a full batch.
const std::vector<step::StepForm>& full_step(StepPrograms& programs);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_RANK_STEP_PROGRAMS_H_
