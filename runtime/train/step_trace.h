// The values of a training step, one after the other as a device computes them.
#ifndef RUNTIME_TRAIN_STEP_TRACE_H_
#define RUNTIME_TRAIN_STEP_TRACE_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/exec/layout_copy.h"
#include "runtime/train/trainer.h"

namespace runtime::train {

struct StepProgram;

using Tensors = std::map<std::string, data::HostTensor>;

// On the host, canonical.
struct TracedValue {
  std::string name;  // the same on every device
  std::string layer, operation;
  bool parameter_gradient = false;
  data::HostTensor tensor;
};

// Called with what an operation has just written; where it returns true, the tensor replaces that.
using Visit = std::function<bool(TracedValue&)>;

struct TracedStep {
  double loss = 0;
  size_t left_out = 0;  // values in a layout that the device does not copy to the canonical one
};

// One rank; one thread, that of the trainer, which outlives it and makes no steps of its own.
class StepTrace {
 public:
  explicit StepTrace(Trainer& trainer);
  ~StepTrace();

  // What steps begin with: parameters, running statistics, the optimizer's state.
  Tensors state();
  // Throws DataError if something is missing or has another size; `source` is for its message.
  void set_state(const Tensors& state, const std::string& source);
  // `step` counts from 0. Values that only this device has (of what it composes or copies) are not
  // visited.
  TracedStep step(const data::Batch& batch, double learning_rate, int64_t step, const Visit& visit);

  // Of the state and of the values of a step, on the host.
  uint64_t bytes(const data::Batch& batch);
  // Of the widest rounding in a step: 2e-2 if there are 16-bit values, 1e-4 float32, 1e-9 float64.
  double tolerance();

 private:
  struct Names;
  bool visit_value(StepProgram& program, const Names& names, int32_t value, TracedValue& traced,
                   const Visit& visit);
  std::vector<int32_t> written(const StepProgram& program, size_t node) const;
  bool is_state(const StepProgram& program, int32_t value) const;

  StepPrograms& programs_;
  exec::LayoutCopy copies_;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_STEP_TRACE_H_
