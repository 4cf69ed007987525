// Makes views, temporaries and nodes for the passes of this folder. Nodes are returned, not
// appended: each pass decides where they go.
#ifndef RUNTIME_PARALLEL_EMIT_H_
#define RUNTIME_PARALLEL_EMIT_H_

#include <string>
#include <vector>

#include "runtime/graph/graph.h"

namespace runtime::parallel {

using NodeList = std::vector<graph::Node>;

// Adds values to `graph`, which must outlive this object.
class Emit {
 public:
  explicit Emit(graph::Graph& graph) : graph_(graph) {}

  // A vector view of `count` elements of `base`, from byte `offset` on.
  graph::ValueId view(graph::ValueId base, uint64_t offset, int64_t count);
  // The same with more than one dimension.
  graph::ValueId view(graph::ValueId base, uint64_t offset, graph::Dims dims);
  // A new value with the type of `like` and the given name, kind and dims.
  graph::ValueId value(const std::string& name, graph::ValueKind kind, graph::ValueId like,
                       graph::Dims dims);
  graph::ValueId temporary(graph::ValueId like, graph::Dims dims) {
    return value("", graph::ValueKind::kTemporary, like, std::move(dims));
  }

  // A node of any operation; an addition and a copy, of phase kBackward.
  graph::Node node(const char* op, const std::string& layer, graph::Phase phase,
                   std::vector<graph::ValueId> inputs, std::vector<graph::ValueId> outputs) const;
  graph::Node add(graph::ValueId a, graph::ValueId b, graph::ValueId out,
                  const std::string& layer) const;
  graph::Node copy(graph::ValueId from, graph::ValueId to, const std::string& layer) const;

  // The values concatenated along dimension 0, or the value itself if there is one. Appends the
  // nodes that this takes to `out`.
  graph::ValueId concat(std::vector<graph::ValueId> values, const std::string& layer,
                        NodeList& out);

  // The start and the wait of a collective on communicator `communicator`.
  using Pair = graph::CollectivePair;
  Pair collective(int32_t kind, int32_t reduction, graph::ValueId send, graph::ValueId receive,
                  int communicator, const std::string& layer);
  // The start and the wait of a send, a receive or a broadcast of `value` among the ranks of a
  // pipeline. `peer` is the other rank or the root.
  Pair transfer(int32_t kind, graph::ValueId value, int peer, const std::string& layer);

 private:
  graph::Graph& graph_;
};

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_EMIT_H_
