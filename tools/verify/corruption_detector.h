// Detects that a value of a program changes although no operation has written it.
#ifndef TOOLS_VERIFY_CORRUPTION_DETECTOR_H_
#define TOOLS_VERIFY_CORRUPTION_DETECTOR_H_

#include <map>
#include <optional>

#include "runtime/data/safetensors.h"
#include "runtime/graph/graph.h"

namespace runtime::verify {

// Remembers a hash of each value from when it was last written or first read. One thread uses an
// object; the graph is borrowed.
class CorruptionDetector {
 public:
  explicit CorruptionDetector(const graph::Graph& graph) : graph_(graph) {}

  // Call it when `node` has written the value. Values that overlap it are forgotten.
  void wrote(graph::ValueId id, const data::HostTensor& tensor, size_t node);
  // Call it when `node` reads the value. If the value has changed, returns the node that wrote it
  // or read it before.
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

}  // namespace runtime::verify

#endif  // TOOLS_VERIFY_CORRUPTION_DETECTOR_H_
