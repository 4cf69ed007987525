// What the passes ask of the device that a graph is compiled for. exec/ implements it over a
// plugin; tests by hand.
#ifndef RUNTIME_GRAPH_TARGET_H_
#define RUNTIME_GRAPH_TARGET_H_

#include <string>
#include <vector>

#include "runtime/graph/graph.h"

namespace runtime::graph {

struct Support {
  bool supported = false;
  uint32_t post_ops_fused = 0;  // of the node's post-operations, counted from the first
  std::string reason;           // if refused
};

// One way to do a node: see rt_candidate.
struct Candidate {
  uint64_t algorithm = 0;
  double ns = 0;  // estimated or measured
  std::vector<uint64_t> input_layouts, output_layouts;
  std::vector<uint64_t> input_bytes, output_bytes;
  std::string implementation;
};

class Target {
 public:
  virtual ~Target() = default;
  virtual std::string name() const = 0;  // "cpu:0", for messages
  virtual Support support(const Graph& graph, const Node& node) = 0;
  // Candidates with the given layouts, RT_LAYOUT_ANY where the device may propose, that do the node
  // with all its post-operations. Empty if none fits.
  virtual std::vector<Candidate> candidates(const Graph& graph, const Node& node,
                                            const std::vector<uint64_t>& input_layouts,
                                            const std::vector<uint64_t>& output_layouts) = 0;
  // Replaces estimates by measured times where the target measures, and leaves out what failed
  // while it was measured, unless that is all. `candidates` all belong to `node`; at least one is
  // left.
  virtual void measure(const Graph& graph, const Node& node,
                       std::vector<Candidate>& candidates) = 0;
  // Time of a copy of the value between two layouts; infinite if the device has no such copy.
  // Canonical to foreign always exists, and back for everything that a node writes.
  virtual double copy_ns(const Value& value, uint64_t from, uint64_t to) = 0;
  virtual uint64_t layout_bytes(const Value& value, uint64_t layout) = 0;
};

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_TARGET_H_
