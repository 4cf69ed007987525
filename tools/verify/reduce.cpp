// Judges every operation of a step in its order, and makes a case of the first wrong one.
#include "tools/verify/reduce.h"

#include <algorithm>
#include <map>

#include "rt/operations.h"
#include "rt/sdk/error.h"
#include "runtime/exec/device_target.h"
#include "runtime/exec/layout_copy.h"
#include "runtime/graph/host_operations.h"
#include "runtime/graph/operation_set.h"
#include "runtime/graph/print.h"
#include "runtime/train/rank/micro_steps.h"
#include "tools/verify/corruption_detector.h"
#include "tools/verify/shrink.h"

namespace runtime::verify {

namespace {

using graph::Node;
using graph::ValueId;
using plugins::host::Operation;
using rt::sdk::format;

std::vector<std::string> layout_names(plugins::host::Device& device,
                                      const std::vector<rt_tensor_desc>& tensors) {
  std::vector<std::string> names;
  for (const rt_tensor_desc& tensor : tensors) {
    names.push_back(tensor.layout == RT_LAYOUT_CANONICAL ? "canonical"
                                                         : device.layout_name(tensor));
  }
  return names;
}

CaseDevice describe_device(const plugins::host::Device& device) {
  const plugins::host::Plugin& plugin = device.plugin();
  return {device.id(),       device.properties().name, plugin.name(),           plugin.version(),
          plugin.build_id(), device.options().threads, device.options().options};
}

// Observes one program of a step while it runs.
class PassSearch {
 public:
  PassSearch(train::StepPrograms& programs, exec::Program& program, const Judge& judge,
             Reduction& reduction)
      : programs_(programs),
        program_(program),
        graph_(program.graph()),
        judge_(judge),
        reduction_(reduction),
        copies_(programs.stream()),
        detector_(graph_) {}

  void run() {
    reduction_.operations += graph_.nodes.size();
    read_inputs(0);
    // The host waits after each node, so the operands of the next node are complete.
    program_.run_observed(programs_.stream(), [&](size_t node) {
      if (!is_done()) look_at(node);
      if (!is_done() && node + 1 < graph_.nodes.size()) read_inputs(node + 1);
    });
  }

 private:
  // A forward operation, kept until its backward has been judged.
  struct Forward {
    Operation operation;
    HostTensors inputs;
    std::string implementation;
  };

  bool is_done() const { return reduction_.blame != Blame::kNobody; }

  // Returns the value in the canonical layout. Returns nothing if it is in a layout that the device
  // cannot copy from, unless it is a copy of a value that is known.
  std::optional<data::HostTensor> read(ValueId id) {
    const graph::Value& value = graph_.value(id);
    const void* const address = program_.address(id);
    if (address == nullptr) return std::nullopt;
    auto bytes = copies_.read(
        plugins::host::make_tensor_desc(value.dtype, value.dims, value.layout), address);
    if (bytes) return data::HostTensor{value.dtype, value.dims, std::move(*bytes)};
    const auto source = sources_.find(id);
    if (source == sources_.end()) return std::nullopt;
    return source->second;
  }

  void read_inputs(size_t node) {
    inputs_.clear();
    // What a fallback device computes is not at fault of this one.
    complete_ = graph::has_kernel(graph_.nodes[node]) && !graph_.nodes[node].on_fallback;
    if (!complete_) return;
    for (const ValueId id : graph_.nodes[node].inputs) {
      auto tensor = read(id);
      if (!tensor) {
        complete_ = false;
        return;
      }
      if (const auto since = detector_.changed_since(id, *tensor, node))
        return blame_between(id, *since, node);
      inputs_.push_back(std::move(*tensor));
    }
    read_saved(node);
  }

  // A forward operation saves bytes that only its backward understands, so they are only watched
  // for changes.
  void read_saved(size_t node) {
    const Node& n = graph_.nodes[node];
    if (n.saved == graph::kNone || !n.is_backward()) return;
    if (const auto since = detector_.changed_since(n.saved, saved_bytes(n.saved), node))
      blame_between(n.saved, *since, node);
  }

  data::HostTensor saved_bytes(ValueId id) {
    const graph::Value& value = graph_.value(id);
    const auto bytes = static_cast<int64_t>(value.bytes);
    return {
        RT_UINT8,
        {bytes},
        *copies_.read(plugins::host::make_tensor_desc(RT_UINT8, {bytes}), program_.address(id))};
  }

  void look_at(size_t node) {
    const Node& n = graph_.nodes[node];
    HostTensors outputs;
    for (const ValueId id : n.outputs) {
      auto tensor = read_output(n, id);
      if (!tensor) {
        complete_ = false;
        continue;
      }
      detector_.wrote(id, *tensor, node);
      outputs.push_back(std::move(*tensor));
    }
    const bool saves = n.saved != graph::kNone && !n.is_backward() && !n.on_fallback;
    if (saves) detector_.wrote(n.saved, saved_bytes(n.saved), node);
    if (!complete_) return;
    const Operation operation = exec::to_operation(graph_, n, program_.operation_flags());
    if (saves) forwards_[n.saved] = {operation, inputs_, n.implementation};
    judge_node(node, operation, outputs);
  }

  // If the device cannot copy from the layout of a copied value, such as packed weights, the source
  // of the copy is remembered in its place.
  std::optional<data::HostTensor> read_output(const Node& n, ValueId id) {
    sources_.erase(id);
    auto tensor = read(id);
    const bool copies = kind_of(graph_, n) == graph::Kind::kCopies;
    if (!tensor && copies && !inputs_.empty() && complete_) sources_[id] = inputs_[0];
    return tensor;
  }

  IsolatedOperation isolate(const Node& n, const Operation& operation) const {
    IsolatedOperation isolated{operation, inputs_};
    if (n.saved != graph::kNone && n.is_backward()) {
      const auto forward = forwards_.find(n.saved);
      if (forward != forwards_.end()) {
        isolated.forward = forward->second.operation;
        isolated.forward_inputs = forward->second.inputs;
      }
    }
    for (uint32_t j = 0; j < n.outputs.size(); ++j) {
      for (uint32_t i = 0; i < n.inputs.size(); ++i) {
        const void* const address = program_.address(n.outputs[j]);
        if (address == program_.address(n.inputs[i])) isolated.in_place.emplace_back(j, i);
      }
    }
    return isolated;
  }

  void judge_node(size_t node, const Operation& operation, const HostTensors& outputs) {
    const Node& n = graph_.nodes[node];
    IsolatedOperation isolated = isolate(n, operation);
    // The forward was not judged, because its operands could not be copied out of their layouts.
    if (n.saved != graph::kNone && n.is_backward() && !isolated.forward) return;
    const Verdict verdict =
        judge_.judge(*programs_.setup().device, isolated, outputs, judge_.expect(isolated));
    ++reduction_.judged;
    const auto nearness = [](const Verdict& v) { return v.bound > 0 ? v.error / v.bound : 0; };
    if (!verdict.right || nearness(verdict) > nearness(reduction_.verdict)) {
      reduction_.verdict = verdict;
      reduction_.layer = n.layer;
      reduction_.operation = n.op;
    }
    if (!verdict.right) blame_operation(node, std::move(isolated), verdict);
  }

  void blame_between(ValueId id, size_t since, size_t node) {
    const Node &before = graph_.nodes[since], &reader = graph_.nodes[node];
    reduction_.blame = Blame::kBetween;
    reduction_.value = graph_.value(id).name;
    reduction_.layer = reader.layer;
    reduction_.operation = reader.op;
    reduction_.explanation = format(
        "it was as expected at operation %zu (%s, layer '%s') and is another when operation %zu "
        "(%s, layer '%s') reads it, though no operation between them has it as its output: one of "
        "them writes beyond its output, or memory was given away too early",
        since + 1, before.op.c_str(), before.layer.c_str(), node + 1, reader.op.c_str(),
        reader.layer.c_str());
  }

  void blame_operation(size_t node, IsolatedOperation isolated, const Verdict& verdict) {
    const Node& n = graph_.nodes[node];
    auto reproduced = reproduce(judge_, programs_.setup().device, std::move(isolated));
    if (!reproduced) {
      reduction_.blame = Blame::kBetween;
      reduction_.value = graph_.value(n.outputs[verdict.output]).name;
      reduction_.explanation = format(
          "operation %zu (%s, layer '%s') computes it wrong within the step (error %.3g, bound "
          "%.3g) and right alone, from the same operands: it depends on something that is none of "
          "them, such as what its memory held before, or memory that it shares with another value",
          node + 1, n.op.c_str(), n.layer.c_str(), verdict.error, verdict.bound);
      return;
    }
    const auto& inputs = reproduced->isolated.operation.inputs;
    const int64_t rows = inputs.empty() || inputs[0].rank == 0 ? 0 : inputs[0].dims[0];
    Reproduced small = shrink_rows(judge_, programs_.setup().device, std::move(*reproduced));
    reduction_.blame = Blame::kOperation;
    reduction_.verdict = small.verdict;
    reduction_.found = make_case(node, std::move(small));
    reduction_.found->origin.rows = rows;
  }

  Case make_case(size_t node, Reproduced reproduced) {
    const Node& n = graph_.nodes[node];
    plugins::host::Device& device = *programs_.setup().device;
    Case c;
    c.candidate = {n.implementation, layout_names(device, reproduced.isolated.operation.inputs),
                   layout_names(device, reproduced.isolated.operation.outputs)};
    if (const auto& forward = reproduced.isolated.forward) {
      c.forward_candidate = {forwards_.at(n.saved).implementation,
                             layout_names(device, forward->inputs),
                             layout_names(device, forward->outputs)};
    }
    c.origin.config = programs_.setup().config.name;
    c.origin.layer = n.layer;
    c.origin.phase = graph::name_of(n.phase);
    c.origin.operation = node;
    c.origin.operations = graph_.nodes.size();
    for (const ValueId id : n.inputs) c.origin.inputs.push_back(graph_.value(id).name);
    for (const ValueId id : n.outputs) c.origin.outputs.push_back(graph_.value(id).name);
    c.device = describe_device(device);
    c.definition = judge_.definition().id();
    c.bounds = std::move(reproduced.bounds);
    c.expected = std::move(reproduced.expected);
    c.actual = std::move(reproduced.actual);
    c.isolated = std::move(reproduced.isolated);
    return c;
  }

  train::StepPrograms& programs_;
  exec::Program& program_;
  const graph::Graph& graph_;
  const Judge& judge_;
  Reduction& reduction_;
  exec::LayoutCopy copies_;
  CorruptionDetector detector_;
  HostTensors inputs_;     // operands of the node that runs next
  bool complete_ = false;  // whether all of them could be read
  std::map<ValueId, data::HostTensor> sources_;
  std::map<ValueId, Forward> forwards_;  // by the value that they save
};

}  // namespace

Reduction reduce_step(train::StepPrograms& programs, const Judge& judge, const StepStart& start) {
  StepTrace(programs).set_state(start.state, start.source);
  Reduction reduction;
  const auto run = [&](train::StepProgram& p) {
    if (reduction.blame == Blame::kNobody) PassSearch(programs, *p.program, judge, reduction).run();
  };
  train::for_each_micro_step(programs, step::Purpose::kTraining, start.batch, start.learning_rate,
                             start.step, nullptr, run);
  if (reduction.found) reduction.found->origin.step = start.step;
  return reduction;
}

}  // namespace runtime::verify
