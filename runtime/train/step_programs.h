// The programs of a rank's steps, one for each form of a step that occurs, over shared storage.
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

// A form of a step.
struct StepKey {
  Purpose purpose = Purpose::kTraining;
  int64_t rows = 1;               // of each shard
  bool split_batch_norm = false;  // batch norm over several shards or ranks, or without padding
  bool accumulate = false;        // adds to the gradients of the micro-steps before
  double l2_share = 1;
  auto operator<=>(const StepKey&) const = default;
};

struct StepProgram {
  StepGraph step;
  parallel::Distributed values;
  std::unique_ptr<exec::Program> program;
  uint64_t input_bytes = 0;  // of what a step copies from the host, see exec::Upload

  // nullptr for kNone, and for what this rank's part of the model does not use.
  void* address(graph::ValueId id) const {
    return id == graph::kNone ? nullptr : program->address(id);
  }
};

// A rank of a job of which nothing else is there: its programs are planned and have no memory.
struct PlannedRank {
  int rank = 0, world_size = 1;
};

// See loss_scale in plugins/operations.md.
struct LossScaling {
  double scale = 1;
  int64_t skipped = 0;  // steps without an update
};

// One thread.
class StepPrograms {
 public:
  StepPrograms(const config::Config& config, const data::SampleSpec& spec,
               std::shared_ptr<plugins::host::Device> device, const exec::CompileOptions& options,
               const std::optional<PlannedRank>& planned = std::nullopt);

  // The micro-steps of a rank's part of a global batch, in order.
  const std::vector<StepKey>& keys(Purpose purpose, const data::Batch& batch);
  // Of a training step of a full global batch.
  const std::vector<StepKey>& full_step();
  StepKey whole(Purpose purpose, int64_t rows) const;
  StepProgram& get(const StepKey& key);
  // The last pass of a full training step.
  StepProgram& any_program();
  int64_t nominal_rows() const;  // of each shard, for a full batch

  // Copies rows of a batch, from `first_row`, to where the program reads them, and what else
  // changes from step to step. `step` counts from 0.
  void upload(StepProgram& program, const data::Batch& batch, int64_t first_row,
              double learning_rate, int64_t step);
  void write(void* address, const std::vector<std::byte>& bytes);
  std::vector<std::byte> read(const void* address, uint64_t bytes);
  double read_scalar(const StepProgram& program, graph::ValueId id);
  // Of float16; waits for the steps that are queued.
  std::optional<LossScaling> loss_scaling();

  // Of the data axis.
  int world_size() const { return split.world_size; }
  int rank() const { return split.rank; }

  config::Config config;
  data::SampleSpec spec;
  std::shared_ptr<plugins::host::Device> device;
  exec::CompileOptions options;
  model::Model model;
  rt_dtype dtype;
  rt_dtype activations;  // 0: as dtype
  std::string loss;
  ModelParallel parts;  // this rank's of the model; split has those of a batch
  parallel::BatchSplit split;
  plugins::host::Stream stream;
  exec::Storage storage;
  exec::Arena arena;
  uint64_t most_input_bytes = 0;  // of the programs so far
  std::vector<std::string> notes;

 private:
  bool several() const { return split.world_size > 1; }
  int64_t nominal_rows_of(int rank) const;  // of the data axis
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
  // By purpose, rows of the global batch and of this rank's part, and whether rows are padding.
  std::map<std::tuple<Purpose, int64_t, int64_t, bool>, std::vector<StepKey>> keys_;
  exec::Upload upload_{stream};
  // Copied from when a step is queued; kept so that steps allocate nothing.
  std::vector<double> widened_, weight_wide_;
  std::vector<float> weight_;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_STEP_PROGRAMS_H_
