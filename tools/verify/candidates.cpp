// Lists candidates of an operation, also without the post-operations that a device does not fuse.
#include "tools/verify/candidates.h"

#include <algorithm>
#include <set>

#include "plugins/host/error.h"
#include "rt/operations.h"
#include "rt/sdk/foreign_layout.h"

namespace runtime::verify {

namespace {

using plugins::host::Device;
using plugins::host::Operation;
using plugins::host::Support;

std::vector<uint64_t> layouts_and_algorithm(const Operation& operation) {
  std::vector<uint64_t> key = {operation.algorithm};
  for (const auto* list : {&operation.inputs, &operation.outputs}) {
    for (const rt_tensor_desc& tensor : *list) key.push_back(tensor.layout);
  }
  return key;
}

// Returns the operation for a query in which the device may choose the layouts.
Operation with_any_layouts(Operation operation) {
  for (auto* list : {&operation.inputs, &operation.outputs}) {
    for (rt_tensor_desc& tensor : *list) {
      const bool any = rt::sdk::takes_foreign_layout(operation.name, tensor.rank);
      tensor.layout = any ? RT_LAYOUT_ANY : RT_LAYOUT_CANONICAL;
    }
  }
  operation.algorithm = 0;
  return operation;
}

Operation with_candidate(Operation operation, const rt_candidate& candidate) {
  for (size_t i = 0; i < operation.inputs.size(); ++i)
    operation.inputs[i].layout = candidate.input_layouts[i];
  for (size_t i = 0; i < operation.outputs.size(); ++i)
    operation.outputs[i].layout = candidate.output_layouts[i];
  operation.algorithm = candidate.algorithm;
  return operation;
}

// Queries the device. An operation that this build of the plugin does not accept, for example for
// an unknown layout, counts as refused.
Support ask(Device& device, const Operation& operation) {
  try {
    return device.query(operation);
  } catch (const plugins::host::Error& error) {
    if (error.scope() != RT_SCOPE_OPERATION) throw;
    Support refused;
    refused.reason = error.what();
    return refused;
  }
}

class Candidates {
 public:
  Candidates(Device& device, const IsolatedOperation& isolated)
      : device_(device), isolated_(isolated) {}

  void add(const Operation& question, const std::optional<Operation>& forward) {
    const Support support = ask(device_, question);
    if (support.level == RT_SUPPORT_REFUSED) return;
    const bool fuses_all = support.post_ops_fused >= isolated_.operation.post_ops.size();
    // Post-operations that are not fused need their operands in the canonical layout, so such
    // candidates are taken only while the list is empty.
    if (!fuses_all && !list_.empty()) return;
    for (const rt_candidate& offered : support.candidates) {
      Candidate candidate{isolated_, offered.implementation, support.post_ops_fused};
      candidate.isolated.operation = with_candidate(question, offered);
      candidate.isolated.forward = forward;
      if (seen_.insert(layouts_and_algorithm(candidate.isolated.operation)).second)
        list_.push_back(std::move(candidate));
    }
  }

  // Adds the operation without an algorithm: the device then makes its own choice for these
  // layouts, as for copies between layouts.
  void add_own_choice() {
    const Support support = ask(device_, isolated_.operation);
    if (support.level == RT_SUPPORT_REFUSED || support.candidates.empty() ||
        support.post_ops_fused < isolated_.operation.post_ops.size())
      return;
    seen_.insert(layouts_and_algorithm(isolated_.operation));
    list_.push_back({isolated_, support.candidates[0].implementation, support.post_ops_fused});
  }

  std::vector<Candidate> take() { return std::move(list_); }

 private:
  Device& device_;
  const IsolatedOperation& isolated_;
  std::set<std::vector<uint64_t>> seen_;
  std::vector<Candidate> list_;
};

// Returns a post-operation as an operation of its own, which is applied to `y`.
IsolatedOperation as_operation(const plugins::host::PostOp& post, const rt_tensor_desc& tensor,
                               data::HostTensor y, const IsolatedOperation& whole) {
  IsolatedOperation alone;
  Operation& operation = alone.operation;
  operation.inputs = {tensor};
  operation.outputs = {tensor};
  alone.inputs.push_back(std::move(y));
  if (post.operand >= 0) {
    operation.inputs.push_back(whole.operation.inputs[post.operand]);
    alone.inputs.push_back(whole.inputs[post.operand]);
  }
  const bool activation = post.kind == RT_POST_ACTIVATION;
  const bool backward = post.kind == RT_POST_ACTIVATION_BACKWARD;
  operation.name = activation ? RT_OP_ACTIVATION : backward ? RT_OP_ACTIVATION_BACKWARD : RT_OP_ADD;
  if (activation || backward)
    operation.attributes = {{RT_ATTR_FUNCTION, static_cast<int64_t>(post.function)}};
  return alone;
}

// Removes the post-operations from `fused` on, their operands, which are the last inputs, and what
// they store, which is the last output.
IsolatedOperation trimmed(IsolatedOperation isolated, uint32_t fused) {
  while (isolated.operation.post_ops.size() > fused) {
    if (isolated.operation.post_ops.back().operand >= 0) {
      isolated.operation.inputs.pop_back();
      isolated.inputs.pop_back();
    }
    if (isolated.operation.post_ops.back().kind == RT_POST_STORE)
      isolated.operation.outputs.pop_back();
    isolated.operation.post_ops.pop_back();
  }
  return isolated;
}

}  // namespace

std::vector<Candidate> list_candidates(Device& device, const IsolatedOperation& isolated,
                                       bool own_layouts, std::string* reason) {
  const IsolatedOperation canonical = in_canonical_layouts(isolated);
  for (const Operation* operation :
       {canonical.forward ? &*canonical.forward : nullptr, &canonical.operation}) {
    if (operation == nullptr) continue;
    const Support support = ask(device, *operation);
    if (support.level != RT_SUPPORT_REFUSED) continue;
    if (reason != nullptr) *reason = support.reason;
    return {};
  }
  Candidates candidates(device, isolated);
  if (own_layouts) {
    Operation recorded = isolated.operation;
    recorded.algorithm = 0;
    if (isolated.operation.algorithm == 0) candidates.add_own_choice();
    candidates.add(recorded, isolated.forward);
  }
  candidates.add(canonical.operation, canonical.forward);
  // A backward follows the layouts of its forward.
  if (!isolated.forward) candidates.add(with_any_layouts(isolated.operation), canonical.forward);
  return candidates.take();
}

bool is_same_candidate(const Candidate& candidate, const IsolatedOperation& isolated) {
  const auto forward = [](const IsolatedOperation& i) {
    return i.forward ? layouts_and_algorithm(*i.forward) : std::vector<uint64_t>();
  };
  return candidate.fused >= isolated.operation.post_ops.size() &&
         layouts_and_algorithm(candidate.isolated.operation) ==
             layouts_and_algorithm(isolated.operation) &&
         forward(candidate.isolated) == forward(isolated);
}

HostTensors run_candidate(const std::shared_ptr<Device>& device, const Candidate& candidate) {
  const IsolatedOperation& whole = candidate.isolated;
  if (candidate.fused >= whole.operation.post_ops.size())
    return run_isolated(device, whole).outputs;
  HostTensors outputs = run_isolated(device, trimmed(whole, candidate.fused)).outputs;
  rt_tensor_desc tensor = whole.operation.outputs[0];
  tensor.layout = RT_LAYOUT_CANONICAL;
  for (size_t i = candidate.fused; i < whole.operation.post_ops.size(); ++i) {
    const plugins::host::PostOp& post = whole.operation.post_ops[i];
    if (post.kind == RT_POST_STORE) {
      outputs.push_back(outputs[0]);
      continue;
    }
    const IsolatedOperation alone = as_operation(post, tensor, std::move(outputs[0]), whole);
    outputs[0] = std::move(run_isolated(device, in_canonical_layouts(alone)).outputs[0]);
  }
  return outputs;
}

std::string describe(Device& device, const Candidate& candidate) {
  const Operation& operation = candidate.isolated.operation;
  std::string text =
      candidate.implementation + " (algorithm " + std::to_string(operation.algorithm);
  for (const auto* list : {&operation.inputs, &operation.outputs}) {
    for (const rt_tensor_desc& tensor : *list) {
      if (tensor.layout != RT_LAYOUT_CANONICAL) text += ", " + device.layout_name(tensor);
    }
  }
  if (candidate.fused < operation.post_ops.size())
    text += ", " + std::to_string(operation.post_ops.size() - candidate.fused) +
            " post-operations as operations of their own";
  return text + ")";
}

}  // namespace runtime::verify
