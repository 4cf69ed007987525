// Sees when a value of a program changes though no operation has written it.
#ifndef RUNTIME_ANALYSIS_WITNESS_H_
#define RUNTIME_ANALYSIS_WITNESS_H_

#include <map>
#include <optional>

#include "runtime/data/safetensors.h"
#include "runtime/graph/graph.h"

namespace runtime::analysis {

// Remembers what values held when they were last written or first read: a hash of each.
class Witness {
 public:
  explicit Witness(const graph::Graph& graph) : graph_(graph) {}

  // `node` has written the value, and with it all that overlaps it.
  void wrote(graph::ValueId id, const data::HostTensor& tensor, size_t node);
  // `node` reads the value. If it holds something else than before: the node that had written or
  // read it.
  std::optional<size_t> changed_since(graph::ValueId id, const data::HostTensor& tensor,
                                      size_t node);

 private:
  struct Seen {
    size_t hash, node;
  };
  uint64_t begin_of(graph::ValueId id) const;
  void forget_overlapping(graph::ValueId id);

  const graph::Graph& graph_;
  std::map<graph::ValueId, Seen> seen_;
};

}  // namespace runtime::analysis

#endif  // RUNTIME_ANALYSIS_WITNESS_H_
