// The optimizer of the range of parameters that one rank owns in asynchronous training.
#ifndef RUNTIME_TRAIN_ASYNCHRONOUS_OWNED_UPDATE_H_
#define RUNTIME_TRAIN_ASYNCHRONOUS_OWNED_UPDATE_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/exec/compile_options.h"
#include "runtime/exec/program.h"
#include "runtime/parallel/flat_layout.h"
#include "runtime/step/optimizer.h"

namespace runtime::train {

// Parameters and optimizer state of a range of the flat buffer, with kernels and a stream of their
// own, so that one thread may use it while another runs the model on the same device. One thread at
// a time.
//
// A step of the global batch is `items` updates, one for each work item: each takes the gradient of
// its item as if that were the whole batch, at 1/items of the learning rate. So the updates of a
// step add up to one step of SGD and of weight decay, and of AdamW too, which does not depend on
// the size of a gradient.
class OwnedUpdate {
 public:
  // `parameters`: initial values of the range. `layout`: of the range (parallel::owned_range), with
  // its parameter groups; may be empty if there is one group. `options.collectives` is not used.
  OwnedUpdate(const config::Optimizer& optimizer, const std::vector<std::byte>& parameters,
              rt_dtype dtype, int items, std::shared_ptr<plugins::host::Device> device,
              const exec::CompileOptions& options, const parallel::FlatLayout& layout = {});
  OwnedUpdate(const OwnedUpdate&) = delete;
  OwnedUpdate& operator=(const OwnedUpdate&) = delete;

  // `gradient`: what a work item adds to the gradient of its step. `learning_rate`: that of the
  // step.
  void apply(const std::vector<std::byte>& gradient, double learning_rate);
  // The present parameters of the range; waits for the stream.
  std::vector<std::byte> parameters();
  uint64_t bytes() const { return bytes_; }
  // Lines for the log: replaced operations.
  const std::vector<std::string>& notes() const { return notes_; }
  // The optimizer state of the range, in buffers of the names that step::optimizer_state() has.
  const exec::Storage& storage() const { return storage_; }
  // The number of updates so far. Whoever writes the optimizer state of a checkpoint sets it.
  int64_t updates() const { return updates_; }
  void set_updates(int64_t updates) { updates_ = updates; }

 private:
  void* address(graph::ValueId id) const { return program_->address(id); }
  void write(graph::ValueId flat, const std::vector<std::byte>& bytes);

  const rt_dtype dtype_;
  const int items_;
  const uint64_t bytes_;
  exec::Storage storage_;
  exec::Arena arena_;
  step::UpdateValues values_;
  std::vector<std::string> notes_;
  std::unique_ptr<exec::Program> program_;
  int64_t updates_ = 0;
  plugins::host::Stream stream_;  // last: destroyed first, which waits for its work
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_ASYNCHRONOUS_OWNED_UPDATE_H_
