// The optimizer of one shard of the parameters, at the rank that owns it.
#ifndef RUNTIME_TRAIN_SHARD_UPDATE_H_
#define RUNTIME_TRAIN_SHARD_UPDATE_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/exec/compile.h"
#include "runtime/parallel/flat_layout.h"
#include "runtime/train/update_graph.h"

namespace runtime::train {

// Parameters and optimizer state of a range of the flat buffer, with kernels and a stream of its
// own: a thread may use it while another runs the model on the same device. One thread at a time.
//
// A step of the whole batch is `parts` updates, each with the gradient of its part as if that were
// the whole batch, at a `parts`-th of the learning rate. So the parts of a step add up to one step,
// of SGD, of weight decay, and of AdamW, for which the size of a gradient does not matter.
class ShardUpdate {
 public:
  // `layout`: of the shard (parallel::part_of); none: no vectors to tell from matrices.
  // `options.collectives` is not used.
  ShardUpdate(const config::Optimizer& optimizer, std::vector<std::byte> parameters, rt_dtype dtype,
              int parts, std::shared_ptr<plugins::host::Device> device,
              exec::CompileOptions options, const parallel::FlatLayout& layout = {});

  // `gradient`: what a part adds to that of its step; `learning_rate`: of the step.
  void apply(const std::vector<std::byte>& gradient, double learning_rate);
  std::vector<std::byte> parameters();
  uint64_t bytes() const { return bytes_; }

 private:
  void* address(graph::ValueId id) const { return program_->address(id); }

  const rt_dtype dtype_;
  const int parts_;
  const uint64_t bytes_;
  plugins::host::Stream stream_;
  exec::Storage storage_;
  exec::Arena arena_;
  UpdateValues values_;
  std::unique_ptr<exec::Program> program_;
  int64_t updates_ = 0;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_SHARD_UPDATE_H_
