// Copies a batch to where a program reads it.
#ifndef RUNTIME_TRAIN_RANK_BATCH_UPLOAD_H_
#define RUNTIME_TRAIN_RANK_BATCH_UPLOAD_H_

#include <string>
#include <vector>

#include "runtime/data/loader.h"
#include "runtime/exec/upload.h"
#include "runtime/train/rank/rank_setup.h"
#include "runtime/train/rank/step_program.h"

namespace runtime::train {

// The inputs of one rank's steps. Used by the thread of the stream, which must outlive it, as must
// the setup.
class BatchUpload {
 public:
  BatchUpload(const RankSetup& setup, plugins::host::Stream& stream);

  // Queues the copies of rows of a batch, from `first_row` on, and of the other inputs that change
  // from step to step. `step` counts from 0.
  void upload(StepProgram& program, const data::Batch& batch, int64_t first_row,
              double learning_rate, int64_t step, exec::SpanRecorder* spans);

 private:
  void upload_scalar(StepProgram& p, graph::ValueId id, double value);
  void upload_numbers(StepProgram& p, graph::ValueId id, const float* from, size_t count);
  void upload_weights(StepProgram& p, graph::ValueId id, const data::Batch& batch,
                      int64_t first_row, int64_t rows);
  void upload_input(StepProgram& p, graph::ValueId id, const std::string& name,
                    const data::Batch& batch, int64_t first_row, int64_t rows);
  void upload_real(StepProgram& p, graph::ValueId id, const data::Batch& batch, int64_t first_row,
                   int64_t rows);

  const RankSetup& setup_;
  const data::LabelWeights weights_;
  exec::Upload upload_;
  // Sources of queued copies, kept so that steps allocate nothing.
  std::vector<double> widened_, weight_wide_;
  std::vector<float> weight_, real_;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_RANK_BATCH_UPLOAD_H_
