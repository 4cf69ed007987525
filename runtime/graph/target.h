// What the passes need to know about the device that a graph is compiled for. exec/ implements it
// over a plugin; tests implement it by hand.
#ifndef RUNTIME_GRAPH_TARGET_H_
#define RUNTIME_GRAPH_TARGET_H_

#include <optional>
#include <string>
#include <vector>

#include "runtime/graph/graph.h"

namespace runtime::graph {

// A device's answer whether it can run a node.
struct Support {
  bool supported = false;
  bool emulated = false;        // the result is right, but the implementation is slow; see `reason`
  uint32_t post_ops_fused = 0;  // post-operations that it fuses, counted from the first
  std::string reason = {};      // why it is refused or emulated
};

// One implementation of a node, as rt_candidate describes it. Layouts and bytes by operand.
struct Candidate {
  uint64_t algorithm = 0;
  double ns = 0;  // nanoseconds, estimated or measured
  std::vector<uint64_t> input_layouts, output_layouts;
  std::vector<uint64_t> input_bytes, output_bytes;
  std::string implementation;
};

// The chosen candidate of each node, in the order of the nodes.
using LayoutDecision = std::vector<Candidate>;

// Called by one thread at a time.
class Target {
 public:
  virtual ~Target() = default;
  virtual std::string name() const = 0;  // "cpu:0", for messages
  // The device that runs nodes with Node::on_fallback, because this one refuses them; "": there is
  // none. support() and candidates() of such a node are the answers of that device, which takes
  // canonical layouts only.
  virtual std::string fallback_name() const { return ""; }
  // Whether the device can run the node in some layout, and what it fuses.
  virtual Support support(const Graph& graph, const Node& node) = 0;
  // Implementations of the node with all its post-operations in the given layouts, where
  // RT_LAYOUT_ANY lets the device choose. Empty if there is none.
  virtual std::vector<Candidate> candidates(const Graph& graph, const Node& node,
                                            const std::vector<uint64_t>& input_layouts,
                                            const std::vector<uint64_t>& output_layouts) = 0;
  // Whether candidates are to be measured.
  virtual bool measures() const { return false; }
  // Replaces estimates by measured times where the target measures, and removes candidates that
  // failed while they were measured, unless all failed. `candidates` all belong to `node`; at least
  // one remains.
  virtual void measure(const Graph& graph, const Node& node,
                       std::vector<Candidate>& candidates) = 0;
  // Nanoseconds of a copy of the value between two layouts; infinite if the device has no such
  // copy. A copy from the canonical layout to a foreign one always exists, and a copy back exists
  // for every value that a node writes.
  virtual double copy_ns(const Value& value, uint64_t from, uint64_t to) = 0;
  // The size of the value in a layout, in bytes.
  virtual uint64_t layout_bytes(const Value& value, uint64_t layout) = 0;
  // The decision that remember() was given for the same graph on the same device, in this run or in
  // an earlier one; nullopt if none is kept.
  virtual std::optional<LayoutDecision> remembered(const Graph&) { return std::nullopt; }
  virtual void remember(const Graph&, const LayoutDecision&) {}
};

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_TARGET_H_
