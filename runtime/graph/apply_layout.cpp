// Rewrites a graph for the chosen layouts: sets algorithms and foreign layouts, inserts copies.
#include <cmath>
#include <map>

#include "rt/sdk/foreign_layout.h"
#include "runtime/graph/layout.h"
#include "runtime/graph/rewriter.h"

namespace runtime::graph {

namespace {

class LayoutApplication {
 public:
  LayoutApplication(Graph& graph, Target& target)
      : graph_(graph), rewriter_(graph), target_(target) {}

  void run(const LayoutDecision& decision) {
    NodeList pack, rest;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      Node node = std::move(graph_.nodes[i]);
      const Candidate& c = decision[i];
      node.algorithm = c.algorithm;
      node.estimated_ns = c.ns;
      node.implementation = c.implementation;
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        node.inputs[k] =
            in_layout(node.inputs[k], c.input_layouts[k], c.input_bytes[k], node, pack, rest);
      }
      NodeList after;
      for (size_t k = 0; k < node.outputs.size(); ++k) {
        node.outputs[k] =
            written_in(node.outputs[k], c.output_layouts[k], c.output_bytes[k], node, after);
      }
      NodeList& list = node.phase == Phase::kPack ? pack : rest;
      list.push_back(std::move(node));
      append(list, after);
    }
    graph_.nodes = std::move(pack);
    append(graph_.nodes, rest);
  }

 private:
  Node copy_node(ValueId from, ValueId to, const Node& because) const {
    Node copy = rewriter_.node(RT_OP_COPY, because, {from}, {to});
    copy.estimated_ns =
        target_.copy_ns(graph_.value(from), graph_.value(from).layout, graph_.value(to).layout);
    return copy;
  }

  ValueId variant(ValueId of, uint64_t layout, uint64_t bytes) {
    const ValueId copy = rewriter_.temporary(of);
    Value& value = graph_.value(copy);
    value.layout = layout;
    value.bytes = layout == RT_LAYOUT_CANONICAL ? canonical_bytes(value) : bytes;
    return copy;
  }

  // The value itself, or its copy in the wanted layout. All readers share one copy.
  ValueId in_layout(ValueId v, uint64_t layout, uint64_t bytes, const Node& reader, NodeList& pack,
                    NodeList& rest) {
    // A view needs its base canonical: if the base has a foreign layout, a canonical copy is
    // viewed. But a view of the same rows may see them in a row layout.
    const ValueId s = graph_.storage(v);
    const bool rows = s != v && rt::sdk::is_row_layout(layout) && owner_of_rows(graph_, v) == s;
    if (rows || (s != v && graph_.value(s).layout != RT_LAYOUT_CANONICAL)) {
      const uint64_t of_base = rows ? layout : RT_LAYOUT_CANONICAL;
      const ValueId base = in_layout(s, of_base, rows ? bytes : 0, reader, pack, rest);
      Value view = graph_.value(v);
      view.base = base;
      view.layout = of_base;
      if (rows) view.bytes = bytes;
      v = graph_.add_value(std::move(view));
    }
    if (graph_.value(v).layout == layout) return v;
    if (const auto known = copies_.find({v, layout}); known != copies_.end()) return known->second;
    ValueId from = v;
    if (!std::isfinite(target_.copy_ns(graph_.value(v), graph_.value(v).layout, layout))) {
      from = in_layout(v, RT_LAYOUT_CANONICAL, 0, reader, pack, rest);
    }
    const ValueId copy = variant(v, layout, bytes);
    copies_[{v, layout}] = copy;
    Node node = copy_node(from, copy, reader);
    const ValueKind kind = graph_.value(graph_.storage(v)).kind;
    if (kind == ValueKind::kParameter || kind == ValueKind::kPacked) {
      Value& packed = graph_.value(copy);
      packed.kind = ValueKind::kPacked;
      packed.name += "#" + std::to_string(layout);
      node.phase = Phase::kPack;
      pack.push_back(std::move(node));
    } else {
      rest.push_back(std::move(node));
    }
    return copy;
  }

  // Makes the node write in `layout`: either the value itself gets that layout, or the node writes
  // a temporary that is copied into the value afterwards.
  ValueId written_in(ValueId v, uint64_t layout, uint64_t bytes, const Node& writer,
                     NodeList& after) {
    if (layout == RT_LAYOUT_CANONICAL) return v;
    if (is_plain_temporary(graph_.value(v))) {
      graph_.value(v).layout = layout;
      graph_.value(v).bytes = bytes;
      return v;
    }
    const ValueId temporary = variant(v, layout, bytes);
    after.push_back(copy_node(temporary, v, writer));
    return temporary;
  }

  Graph& graph_;
  Rewriter rewriter_;
  Target& target_;
  std::map<std::pair<ValueId, uint64_t>, ValueId> copies_;
};

}  // namespace

void apply_layouts(Graph& graph, Target& target, const LayoutDecision& decision) {
  LayoutApplication(graph, target).run(decision);
}

}  // namespace runtime::graph
