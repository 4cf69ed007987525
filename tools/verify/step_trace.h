// The values of a training step, in the order in which a device computes them.
#ifndef TOOLS_VERIFY_STEP_TRACE_H_
#define TOOLS_VERIFY_STEP_TRACE_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/data/batch.h"
#include "runtime/data/safetensors.h"
#include "runtime/exec/layout_copy.h"
#include "runtime/graph/graph.h"

namespace runtime::train {
struct StepProgram;
class StepPrograms;
}  // namespace runtime::train

namespace runtime::verify {

using Tensors = std::map<std::string, data::HostTensor>;

// A value on the host, in canonical layout.
struct TracedValue {
  std::string name;  // the same on every device
  std::string layer, operation;
  bool parameter_gradient = false;
  data::HostTensor tensor;
};

// The names of the graph's values before `end`, the same on every device: the graph before the
// passes depends on the configuration only, and passes append values behind those of that graph,
// so a value's index identifies it.
std::vector<std::string> value_names(const graph::Graph& graph, graph::ValueId end);

// Called with each value after a node has written it. If it returns true, its tensor replaces the
// value on the device.
using Visit = std::function<bool(TracedValue&)>;

// The loss of a traced step, and how many of its values could not be visited.
struct TracedStep {
  double loss = 0;
  size_t left_out = 0;  // values in a layout that the device cannot copy to the canonical one
};

// Traces the steps of one rank. Used by the thread of the programs, which must outlive it and must
// not be run by a trainer meanwhile.
class StepTrace {
 public:
  explicit StepTrace(train::StepPrograms& programs);
  ~StepTrace();

  // The state before a step: parameters, running statistics, optimizer state.
  Tensors state();
  // Throws DataError, which names `source`, if a value is missing or has another size.
  void set_state(const Tensors& state, const std::string& source);
  // Runs a step; `step` counts from 0. Values that other devices need not have are not visited:
  // copies into other layouts, and the intermediate values of an operation that this device refuses
  // and that others replace.
  TracedStep step(const data::Batch& batch, double learning_rate, int64_t step, const Visit& visit);

  // The size on the host of the state and of all values of a step.
  uint64_t bytes(const data::Batch& batch);
  // A tolerance for the widest rounding in a step: 2e-2 if it has 16-bit values, 1e-4 for float32,
  // 1e-9 for float64.
  double tolerance();
  // The same for a comparison with another device: what this device claims for an operation of a
  // step (rt_support.tolerance) if that is more, as far as the contract accepts it. Every later
  // value of the step inherits the difference.
  double tolerance_with_claims();

 private:
  struct Names;
  bool visit_value(train::StepProgram& program, const Names& names, int32_t value,
                   TracedValue& traced, const Visit& visit);
  std::vector<int32_t> written(const train::StepProgram& program, size_t node) const;
  bool is_state(const train::StepProgram& program, int32_t value) const;

  train::StepPrograms& programs_;
  exec::LayoutCopy copies_;
};

}  // namespace runtime::verify

#endif  // TOOLS_VERIFY_STEP_TRACE_H_
