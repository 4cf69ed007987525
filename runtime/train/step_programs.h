// The programs of a rank, one for each step form, over shared storage.
#ifndef RUNTIME_TRAIN_STEP_PROGRAMS_H_
#define RUNTIME_TRAIN_STEP_PROGRAMS_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "plugins/host/drain.h"
#include "runtime/config/config.h"
#include "runtime/data/loader.h"
#include "runtime/exec/compile_options.h"
#include "runtime/exec/program.h"
#include "runtime/exec/upload.h"
#include "runtime/step/compile_step.h"
#include "runtime/step/step.h"
#include "runtime/step/strategy.h"

namespace runtime::config {
struct Loss;
}

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

// A rank that is only planned: its programs have no memory, and no other rank exists.
struct PlannedRank {
  int rank = 0, world_size = 1;
  // The cut of the pipeline, from the strategy of another rank; empty: it is found again.
  std::vector<parallel::StagedLayer> stages = {};
};

// The state of float16 loss scaling, see loss_scale in plugins/operations.md.
struct LossScaling {
  double scale = 1;
  int64_t skipped = 0;  // steps without an update
};

// The programs of a rank, over the storage that they share. A Trainer runs them for training; tools
// that look into a step use them directly. Used by one thread.
class StepPrograms {
 public:
  // With `planned`, programs get no memory. `config` is resolved (see step/ranks.h). Throws
  // ConfigurationError or DeviceError if the model, the data and the device do not fit together.
  StepPrograms(const config::Config& config, const data::SampleSpec& spec,
               std::shared_ptr<plugins::host::Device> device, const exec::CompileOptions& options,
               const std::optional<PlannedRank>& planned = std::nullopt);

  // The step forms of a rank's micro-steps of a global batch, in order. Owned by this object.
  const std::vector<step::StepForm>& forms(step::Purpose purpose, const data::Batch& batch);
  // The same for a training step of a global batch of so many rows, of which the first
  // `global_valid` are samples, and for a full one.
  const std::vector<step::StepForm>& training_step(int64_t global_rows, int64_t global_valid);
  const std::vector<step::StepForm>& full_step();
  // The step form of `rows` rows that are not accumulated.
  step::StepForm whole(step::Purpose purpose, int64_t rows) const;
  // The program of a step form. The first call compiles it, and calls `after` after each pass; if
  // the programs contain collectives, all ranks must make that call. Owned by this object.
  StepProgram& compiled(const step::StepForm& form, const step::AfterPass& after = nullptr);
  // compiled() of a form in which this rank's parameters have addresses: the training step of
  // nominal_rows() rows without accumulation; in asynchronous training, where owners update, the
  // micro-step; after set_inference() the evaluation.
  StepProgram& any_compiled(const step::AfterPass& after = nullptr);
  int64_t nominal_rows() const;  // of each micro-batch or virtual shard of a full batch

  // Copies rows of a batch, from `first_row` on, to where the program reads them, and the other
  // inputs that change from step to step. `step` counts from 0.
  void upload(StepProgram& program, const data::Batch& batch, int64_t first_row,
              double learning_rate, int64_t step, exec::SpanRecorder* spans = nullptr);
  // Copy to and from device memory; they wait for the stream.
  void write(void* address, const std::vector<std::byte>& bytes);
  std::vector<std::byte> read(const void* address, uint64_t bytes);
  // A value in canonical layout; empty where this rank does not use it.
  std::vector<std::byte> read(const StepProgram& program, graph::ValueId id);
  // The same for bytes of a persistent buffer (exec::Storage) from `begin` on, wherever it is cut.
  void write_buffer(const std::string& name, uint64_t begin, const std::vector<std::byte>& bytes);
  std::vector<std::byte> read_buffer(const std::string& name, uint64_t begin, uint64_t bytes);
  std::vector<std::byte> read_buffer(const std::string& name);  // all of it
  double read_scalar(const StepProgram& program, graph::ValueId id);
  // The state of float16 loss scaling, nullopt without it. Waits for queued steps.
  std::optional<LossScaling> loss_scaling();

  const config::Config& config() const { return config_; }
  const data::SampleSpec& spec() const { return spec_; }
  const std::shared_ptr<plugins::host::Device>& device() const { return device_; }
  const exec::CompileOptions& options() const { return options_; }
  exec::Collectives* collectives() const { return options_.collectives; }  // nullptr: one rank
  const model::Model& model() const { return model_; }
  const step::Recipe& recipe() const { return recipe_; }
  const step::Strategy& strategy() const { return strategy_; }  // of this rank
  // Gives ranks shares of a batch in proportion to these speeds, one for each rank of the data
  // axis; cuts the pipeline as given. To be called before the first program is made.
  void set_speeds(std::vector<double> speeds) { strategy_.batch.weights = std::move(speeds); }
  void set_stages(std::vector<parallel::StagedLayer> stages);
  // Nothing will be trained, on one rank: there are no gradients, no state of an optimizer and no
  // moving average, and any_compiled() is an evaluation. To be called before the first program.
  void set_inference() { inference_ = true; }
  bool inference() const { return inference_; }
  plugins::host::Stream& stream() { return stream_; }
  exec::Storage& storage() { return storage_; }
  exec::Arena& arena() { return arena_; }
  // In asynchronous training the optimizer state of the range of the flat buffer that this rank
  // owns (parallel::owned_range); nullptr: the optimizer state is in storage(). Not owned.
  const exec::Storage* owned_state() const { return owned_state_; }
  void set_owned_state(const exec::Storage* storage) { owned_state_ = storage; }
  uint64_t most_input_bytes() const { return most_input_bytes_; }  // of the programs so far
  // Lines for the log: replaced operations, layers that are not split.
  const std::vector<std::string>& notes() const { return notes_; }
  void add_notes(const std::vector<std::string>& notes);  // those that are new

  // The rank and the number of ranks on the data axis.
  int world_size() const { return strategy_.batch.world_size; }
  int rank() const { return strategy_.batch.rank; }
  rt_dtype dtype() const { return strategy_.precision.parameters; }
  // The number of trainable parameters of the whole model, frozen ones included.
  int64_t parameter_count();
  // The maximum over all ranks of each number; waits for all ranks.
  std::vector<double> maximum(std::vector<double> values) const;

 private:
  void upload_scalar(StepProgram& p, graph::ValueId id, double value);
  void upload_numbers(StepProgram& p, graph::ValueId id, const float* from, size_t count);
  void upload_weights(StepProgram& p, graph::ValueId id, const data::Batch& batch,
                      int64_t first_row, int64_t rows);
  void upload_input(StepProgram& p, graph::ValueId id, const std::string& name,
                    const data::Batch& batch, int64_t first_row, int64_t rows);
  void upload_real(StepProgram& p, graph::ValueId id, const data::Batch& batch, int64_t first_row,
                   int64_t rows);

  config::Config config_;
  data::SampleSpec spec_;
  std::shared_ptr<plugins::host::Device> device_;
  exec::CompileOptions options_;
  model::Model model_;
  step::Recipe recipe_;
  step::Strategy strategy_;
  plugins::host::Stream stream_;
  exec::Storage storage_;
  exec::Arena arena_;
  const exec::Storage* owned_state_ = nullptr;
  uint64_t most_input_bytes_ = 0;
  std::vector<std::string> notes_;
  bool has_batch_norm_ = false, inference_ = false;
  data::LabelWeights label_weights_;
  std::map<step::StepForm, StepProgram> programs_;
  // By purpose, rows of the global batch, rows of this rank, and whether some rows are padding.
  std::map<std::tuple<step::Purpose, int64_t, int64_t, bool>, std::vector<step::StepForm>> forms_;
  exec::Upload upload_{stream_};
  // Sources of queued copies, kept so that steps allocate nothing.
  std::vector<double> widened_, weight_wide_;
  std::vector<float> weight_, real_;
  plugins::host::Drain drain_{stream_};  // last: the work of the stream uses everything above
};

// The loss function for `training.loss`, with "auto" resolved. Throws ConfigurationError if it does
// not fit the data set.
const config::Loss& resolve_loss(const config::Training& training, const data::SampleSpec& spec);

// Throws ConfigurationError if samples of the data set do not fit the model's input, its outputs,
// the loss or the metrics. It needs no device.
void check_model(const config::Config& config, const data::SampleSpec& spec);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_STEP_PROGRAMS_H_
