// The tools with which passes change a graph: new values and nodes, places for nodes, copies of
// nodes.
#ifndef RUNTIME_GRAPH_REWRITER_H_
#define RUNTIME_GRAPH_REWRITER_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/graph/graph.h"

namespace runtime::graph {

using NodeList = std::vector<Node>;

// Appends `from`, which is empty afterwards, to `to`.
void append(NodeList& to, NodeList& from);
inline void append(NodeList& to, NodeList&& from) { append(to, from); }

// Removes the nodes whose mark in `dead` is set. `dead` has one mark for each node.
void remove_marked(NodeList& nodes, const std::vector<char>& dead);

// Removes the nodes of the update from the list and returns them, in their order.
NodeList take_updates(NodeList& nodes);

// Puts `other(v)` in place of each value v. Operands that are absent (kNone) stay absent.
template <typename Other>
void replace(std::vector<ValueId>& operands, Other&& other) {
  for (ValueId& v : operands) v = v == kNone ? kNone : other(v);
}

// Adds values to `graph` and makes nodes for it. Nodes are returned, not inserted: each pass
// decides where they go. `graph` must outlive this object.
class Rewriter {
 public:
  explicit Rewriter(Graph& graph) : graph_(graph) {}

  // A one-dimensional view of `count` elements of `base`, from byte `offset` on.
  ValueId view(ValueId base, uint64_t offset, int64_t count);
  // The same with more than one dimension.
  ValueId view(ValueId base, uint64_t offset, Dims dims);
  // A new value with the type of `like` and the given name, kind and dims.
  ValueId value(const std::string& name, ValueKind kind, ValueId like, Dims dims);
  ValueId temporary(ValueId like, Dims dims) {
    return value("", ValueKind::kTemporary, like, std::move(dims));
  }
  // A temporary with the name, type, dims and layout of `like` and with memory of its own.
  ValueId temporary(ValueId like);

  // node() makes a node of any operation, in the second form with the layer, phase and origin of
  // the node `beside`. add() and copy() make an addition and a copy, both of phase kBackward.
  Node node(const std::string& op, const std::string& layer, Phase phase,
            std::vector<ValueId> inputs, std::vector<ValueId> outputs) const;
  Node node(const std::string& op, const Node& beside, std::vector<ValueId> inputs,
            std::vector<ValueId> outputs) const;
  Node add(ValueId a, ValueId b, ValueId out, const std::string& layer) const;
  Node copy(ValueId from, ValueId to, const std::string& layer) const;

  // The values concatenated along dimension 0, or the value itself if there is one. Appends the
  // nodes that this takes to `out`.
  ValueId concat(std::vector<ValueId> values, const std::string& layer, NodeList& out);

  // The start and the wait of a collective on communicator `communicator`.
  CollectivePair collective(int32_t kind, int32_t reduction, ValueId send, ValueId receive,
                            int communicator, const std::string& layer);
  // The start and the wait of a send, a receive or a broadcast of `value`. `peer` is the other rank
  // or the root.
  CollectivePair transfer(int32_t kind, ValueId value, int peer, int communicator,
                          const std::string& layer);

 private:
  Graph& graph_;
};

// Nodes that a pass inserts between those of a list. Places are indices into the list as it was at
// first, so they stay valid while more nodes are inserted.
class Insertions {
 public:
  explicit Insertions(size_t nodes) : after_(nodes) {}

  // The nodes to insert after node `index`, in order; the caller adds to them.
  NodeList& after(size_t index) { return after_.at(index); }
  NodeList& at_end() { return after_.back(); }
  // Returns the list with all insertions made.
  NodeList applied_to(NodeList nodes);

 private:
  std::vector<NodeList> after_;
};

// Copies nodes. The copies of the start and the wait of a collective are paired by a common token.
// It is a new one or, with kSame, that of the originals; kSame is for copies that replace the
// originals.
class NodeCopies {
 public:
  enum class Tokens { kNew, kSame };
  explicit NodeCopies(Graph& graph, Tokens tokens = Tokens::kNew)
      : graph_(graph), new_tokens_(tokens == Tokens::kNew) {}

  // A copy that reads `read(v)` for each input v and writes `written(v)` for each output. The copy
  // has the `saved` of the original, and operands that are absent (kNone) stay absent.
  template <typename Read, typename Written>
  Node copy(const Node& node, Read&& read, Written&& written) {
    Node copy = node;
    replace(copy.inputs, read);
    replace(copy.outputs, written);
    if (copy.collective && new_tokens_) copy.collective->token = token(node.collective->token);
    return copy;
  }

 private:
  int32_t token(int32_t original);

  Graph& graph_;
  bool new_tokens_;
  std::map<int32_t, int32_t> tokens_;  // by token of the original
};

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_REWRITER_H_
