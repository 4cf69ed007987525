// What one rank holds of the model and of the optimizer's state.
#ifndef RUNTIME_TRAIN_RANK_RANK_MODEL_H_
#define RUNTIME_TRAIN_RANK_RANK_MODEL_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "runtime/exec/storage.h"
#include "runtime/train/rank/rank_setup.h"
#include "runtime/train/rank/step_program.h"

namespace runtime::train {

// The state of float16 loss scaling, see loss_scale in plugins/operations.md.
struct LossScaling {
  double scale = 1;
  int64_t skipped = 0;  // steps without an update
};

// The place of a parameter, or of running statistics, on a rank.
struct HeldParameter {
  const model::Parameter& parameter;
  bool here;           // false: another stage of the pipeline has it
  graph::Dims dims;    // of this rank's slice, in canonical layout
  uint64_t bytes;      // of the slice
  std::string buffer;  // of Storage
  uint64_t offset;     // in the buffer; where ranks hold ZeRO partitions, in the whole buffer
  const parallel::FlatLayout* layout;       // of the flat buffer; nullptr: a buffer of its own
  const parallel::ShardedParameter* slice;  // nullptr: the rank has it whole
};

// The buffers of a rank, which its programs share, with the names and places of what lies in them.
// It compiles nothing: the first program says what is where. Used by the thread of the stream.
class RankModel {
 public:
  // `setup` must outlive the object.
  explicit RankModel(const RankSetup& setup)
      : setup_(setup),
        stream_(setup.device->create_stream()),
        storage_(setup.device, setup.planned) {}

  RankModel(const RankModel&) = delete;
  RankModel& operator=(const RankModel&) = delete;

  // Takes the places from a program of setup().form_with_parameters(); later calls do nothing. The
  // next two functions throw InternalError before.
  void describe(const StepProgram& program);
  // By parameter of the whole model.
  const std::vector<HeldParameter>& parameters() const;
  // Those of that program: the flat buffers, the parameters as model::Network has them.
  const step::StepValues& values() const;

  // Copy what the rank holds from and to device memory; they wait for the stream. read() returns
  // nothing of a parameter that is not here.
  std::vector<std::byte> read(const HeldParameter& held);
  void write(const HeldParameter& held, const std::vector<std::byte>& bytes);
  // The same for bytes of a buffer from `begin` on, wherever it is cut, and for all of it.
  std::vector<std::byte> read_buffer(const std::string& name, uint64_t begin, uint64_t bytes);
  std::vector<std::byte> read_buffer(const std::string& name);
  void write_buffer(const std::string& name, uint64_t begin, const std::vector<std::byte>& bytes);
  // nullopt without loss scaling. Waits for queued steps.
  std::optional<LossScaling> loss_scaling();

  const RankSetup& setup() const { return setup_; }
  plugins::host::Stream& stream() { return stream_; }
  exec::Storage& storage() { return storage_; }
  // In asynchronous training the optimizer state of the range of the flat buffer that this rank
  // owns (parallel::owned_range); nullptr: the optimizer state is in storage(). Not owned.
  const exec::Storage* owned_state() const { return owned_state_; }
  void set_owned_state(const exec::Storage* storage) { owned_state_ = storage; }

 private:
  const RankSetup& setup_;
  plugins::host::Stream stream_;
  exec::Storage storage_;
  std::optional<step::StepValues> values_;
  std::vector<HeldParameter> parameters_;
  const exec::Storage* owned_state_ = nullptr;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_RANK_RANK_MODEL_H_
