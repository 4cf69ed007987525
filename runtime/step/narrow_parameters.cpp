// The passes that keep the 16-bit copies of parameters between steps.
#include <map>
#include <utility>

#include "runtime/graph/build.h"
#include "runtime/graph/operation_set.h"
#include "runtime/graph/print.h"
#include "runtime/graph/rewriter.h"
#include "runtime/step/passes.h"

namespace runtime::step {

using graph::kNone;
using graph::Node;
using graph::Phase;
using graph::Value;
using graph::ValueId;
using graph::ValueKind;

namespace {

class NarrowParameters {
 public:
  NarrowParameters(Step& step, rt_dtype dtype)
      : graph_(step.graph), buffers_(step.values.buffers), dtype_(dtype), build_(step.graph) {}

  void run() {
    graph::NodeList nodes = std::exchange(graph_.nodes, {});
    build_.phase = Phase::kPack;
    // What is left in graph_.nodes are the casts of the flat buffers, which share() appends.
    std::erase_if(nodes, [&](const Node& node) { return share(node); });
    const auto other = [&](ValueId v) { return same_.contains(v) ? same_.at(v) : v; };
    for (Node& node : nodes) graph::replace(node.inputs, other);
    for (Value& value : graph_.values) value.base = value.base == kNone ? kNone : other(value.base);
    graph::append(graph_.nodes, nodes);
    if (const auto copy = copies_.find(buffers_.parameters); copy != copies_.end())
      buffers_.narrow = copy->second;
  }

 private:
  // Makes the output of a cast of a parameter a view of the copy of its flat buffer. Returns false
  // if the node is another one.
  bool share(const Node& node) {
    if (kind_of(graph_, node) != graph::Kind::kConverts || node.phase != Phase::kForward)
      return false;
    const ValueId from = node.inputs[0], to = node.outputs[0], flat = graph_.storage(from);
    if (graph_.value(to).dtype != dtype_ ||
        (flat != buffers_.parameters && flat != buffers_.frozen))
      return false;
    const auto [view, is_new] = views_.try_emplace(from, to);
    if (!is_new) {
      same_[to] = view->second;
      return true;
    }
    uint64_t offset = 0;
    for (ValueId v = from; v != flat; v = graph_.value(v).base) offset += graph_.value(v).offset;
    const ValueId copy = copy_of(flat);
    Value& value = graph_.value(to);
    value.name = graph_.value(from).name + suffix();
    value.base = copy;
    value.offset =
        offset * graph::dtype_bytes(dtype_) / graph::dtype_bytes(graph_.value(flat).dtype);
    return true;
  }

  ValueId copy_of(ValueId flat) {
    const auto [copy, is_new] = copies_.try_emplace(flat, kNone);
    if (!is_new) return copy->second;
    const Value wide = graph_.value(flat);
    copy->second =
        graph_.add_value(wide.name + suffix(), ValueKind::kPacked, graph::Dims(wide.dims), dtype_);
    build_.layer = wide.name;
    if (wide.cuts.empty()) {
      build_.node_into(RT_OP_CAST, {flat}, {copy->second});
    } else {
      cast_by_piece(wide, flat, copy->second);
    }
    return copy->second;
  }

  // Casts each buffer of a flat buffer that is cut; the copy is cut at the same elements.
  void cast_by_piece(const Value& wide, ValueId flat, ValueId copy) {
    const uint64_t from = graph::dtype_bytes(wide.dtype), to = graph::dtype_bytes(dtype_);
    graph::Rewriter rewriter(graph_);
    std::vector<uint64_t> begins = {0};
    begins.insert(begins.end(), wide.cuts.begin(), wide.cuts.end());
    for (size_t i = 0; i < begins.size(); ++i) {
      const uint64_t begin = begins[i], end = i + 1 < begins.size() ? begins[i + 1] : wide.bytes;
      const auto count = static_cast<int64_t>((end - begin) / from);
      const ValueId piece = rewriter.view(copy, begin / from * to, count);
      graph_.value(piece).name = wide.name + suffix() + ", buffer " + std::to_string(i);
      build_.node_into(RT_OP_CAST, {rewriter.view(flat, begin, count)}, {piece});
      if (i > 0) graph_.value(copy).cuts.push_back(begin / from * to);
    }
  }

  std::string suffix() const { return "." + graph::name_of(dtype_); }

  graph::Graph& graph_;
  parallel::StepBuffers& buffers_;
  const rt_dtype dtype_;
  graph::Build build_;
  std::map<ValueId, ValueId> copies_;  // by flat buffer
  std::map<ValueId, ValueId> views_;   // by parameter: its 16-bit copy
  std::map<ValueId, ValueId> same_;    // by output of a further cast: that of the first one
};

}  // namespace

void narrow_parameters(Step& step, const StepInput& input) {
  const Strategy& strategy = input.strategy;
  if (strategy.precision.activations == 0 || strategy.zero_partitions(3)) return;
  NarrowParameters(step, strategy.precision.activations).run();
}

// If the device refuses the 16-bit output for the optimizer of one parameter group, the optimizers
// of all groups lose it, and the whole copy is cast after each update. Groups cannot differ: as
// soon as one node of the update writes the copy, exec/program.cpp regards it as up to date.
void narrow_in_update(Step& step, graph::Target& target) {
  const ValueId narrow = step.values.buffers.narrow;
  const auto writes = [&](const Node& node) {
    return kind_of(step.graph, node) == graph::Kind::kOptimizer && node.outputs.back() == narrow;
  };
  for (const Node& node : step.graph.nodes) {
    if (!writes(node)) continue;
    const graph::Support support = target.support(step.graph, node);
    if (support.supported && !support.emulated) continue;
    step.notes.push_back("after each update the parameters are cast to " +
                         graph::name_of(step.graph.value(narrow).dtype) + ": " + node.op + " of " +
                         target.name() + " does not write them in 16 bits (" + support.reason +
                         ")");
    for (Node& other : step.graph.nodes) {
      if (writes(other)) other.outputs.pop_back();
    }
    return;
  }
}

}  // namespace runtime::step
