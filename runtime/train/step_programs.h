// The programs of a rank, one for each step form, over shared storage.
#ifndef RUNTIME_TRAIN_STEP_PROGRAMS_H_
#define RUNTIME_TRAIN_STEP_PROGRAMS_H_

#include <compare>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/data/loader.h"
#include "runtime/exec/compile.h"
#include "runtime/exec/upload.h"
#include "runtime/parallel/batch_split.h"
#include "runtime/train/step_graph.h"

namespace runtime::train {

// A step form: what makes one step's program different from another's.
struct StepKey {
  Purpose purpose = Purpose::kTraining;
  int64_t rows = 1;  // of each micro-batch or virtual shard
  // Whether batch norm is over several virtual shards or ranks, or has padding to ignore.
  bool split_batch_norm = false;
  bool accumulate = false;  // adds to the gradients of earlier micro-steps
  double l2_share = 1;
  auto operator<=>(const StepKey&) const = default;
};

// One step form's graph and compiled program.
struct StepProgram {
  StepGraph step;
  parallel::Distributed values;
  std::unique_ptr<exec::Program> program;
  uint64_t input_bytes = 0;  // bytes that a step copies from the host, see exec::Upload

  // The address of a value; nullptr for kNone and for what this rank does not use of the model.
  void* address(graph::ValueId id) const {
    return id == graph::kNone ? nullptr : program->address(id);
  }
};

// A rank that is only planned: its programs have no memory, and no other rank exists.
struct PlannedRank {
  int rank = 0, world_size = 1;
};

// The state of float16 loss scaling, see loss_scale in plugins/operations.md.
struct LossScaling {
  double scale = 1;
  int64_t skipped = 0;  // steps without an update
};

// Used by one thread.
class StepPrograms {
 public:
  // With `planned`, programs get no memory. `config` is resolved (see ranks.h). Throws
  // ConfigurationError or DeviceError if the model, the data and the device do not fit together.
  StepPrograms(const config::Config& config, const data::SampleSpec& spec,
               std::shared_ptr<plugins::host::Device> device, const exec::CompileOptions& options,
               const std::optional<PlannedRank>& planned = std::nullopt);

  // The step forms of a rank's micro-steps of a global batch, in order. Owned by this object.
  const std::vector<StepKey>& keys(Purpose purpose, const data::Batch& batch);
  // The same for a training step of a full global batch.
  const std::vector<StepKey>& full_step();
  // The step form of `rows` rows that are not accumulated.
  StepKey whole(Purpose purpose, int64_t rows) const;
  // The program of a step form, made at the first call. Owned by this object.
  StepProgram& get(const StepKey& key);
  // A program in which this rank's parameters have addresses: the training step of nominal_rows()
  // rows without accumulation; in asynchronous training, where owners update, the micro-step.
  StepProgram& any_program();
  int64_t nominal_rows() const;  // of each micro-batch or virtual shard of a full batch

  // Copies rows of a batch, from `first_row` on, to where the program reads them, and the other
  // inputs that change from step to step. `step` counts from 0.
  void upload(StepProgram& program, const data::Batch& batch, int64_t first_row,
              double learning_rate, int64_t step);
  // Copy to and from device memory; they wait for the stream.
  void write(void* address, const std::vector<std::byte>& bytes);
  std::vector<std::byte> read(const void* address, uint64_t bytes);
  double read_scalar(const StepProgram& program, graph::ValueId id);
  // The state of float16 loss scaling, nullopt without it. Waits for queued steps.
  std::optional<LossScaling> loss_scaling();

  // On the data axis.
  int world_size() const { return split.world_size; }
  int rank() const { return split.rank; }

  config::Config config;
  data::SampleSpec spec;
  std::shared_ptr<plugins::host::Device> device;
  exec::CompileOptions options;
  model::Model model;
  rt_dtype dtype;
  rt_dtype activations;  // 0: the same as dtype
  std::string loss;
  ModelParallel parts;  // this rank's place on all axes; `split` has its samples
  parallel::BatchSplit split;
  plugins::host::Stream stream;
  exec::Storage storage;
  exec::Arena arena;
  uint64_t most_input_bytes = 0;  // largest input_bytes of the programs so far
  std::vector<std::string> notes;

 private:
  bool several() const { return split.world_size > 1; }
  int64_t nominal_rows_of(int rank) const;  // rank: on the data axis
  void agree_on_stages();
  StepOptions step_options(const StepKey& key) const;
  parallel::DistributeOptions distribute_options(const StepKey& key, const StepGraph& step) const;
  void check_classes(const StepGraph& step) const;
  void check_tokens(const StepGraph& step) const;
  void check_recompute(const StepGraph& step) const;
  void upload_scalar(StepProgram& p, graph::ValueId id, double value);
  void upload_numbers(StepProgram& p, graph::ValueId id, const float* from, size_t count);
  void upload_weights(StepProgram& p, graph::ValueId id, const data::Batch& batch,
                      int64_t first_row, int64_t rows);

  bool has_batch_norm_ = false;
  std::map<StepKey, StepProgram> programs_;
  // By purpose, rows of the global batch, rows of this rank, and whether some rows are padding.
  std::map<std::tuple<Purpose, int64_t, int64_t, bool>, std::vector<StepKey>> keys_;
  exec::Upload upload_{stream};
  // Sources of queued copies, kept so that steps allocate nothing.
  std::vector<double> widened_, weight_wide_;
  std::vector<float> weight_;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_STEP_PROGRAMS_H_
