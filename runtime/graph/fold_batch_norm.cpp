// Scales the weights of a convolution by the normalisation behind it, in nodes that run once.
#include "runtime/graph/fold_batch_norm.h"

#include <utility>

#include "runtime/graph/build.h"
#include "runtime/graph/rewriter.h"

namespace runtime::graph {

namespace {

// batch_norm_inference(y) = y * s + (beta - mean * s) with s = gamma / sqrt(var + epsilon), for
// each channel.
class Folding {
 public:
  explicit Folding(Graph& graph)
      : graph_(graph), build_(graph), rewriter_(graph), readers_(graph.values.size(), 0) {
    for (const Node& node : graph.nodes) {
      for (ValueId v : node.inputs) ++readers_[graph.storage(v)];
    }
  }

  void run() {
    NodeList nodes = std::exchange(graph_.nodes, {});
    std::vector<size_t> writer(graph_.values.size(), nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (ValueId v : nodes[i].outputs) writer[v] = i;
      if (nodes[i].op != RT_OP_BATCH_NORM_INFERENCE) continue;
      const size_t before = writer[nodes[i].inputs[0]];
      if (before < nodes.size() && fits(nodes[before], nodes[i])) fold(nodes[before], nodes[i]);
    }
    append(graph_.nodes, nodes);  // behind the nodes of Phase::kPack, which fold() has appended
  }

 private:
  // Whether `v` is a parameter or, as running statistics are, part of the state.
  bool outlives_steps(ValueId v, const Value& like) const {
    const ValueKind kind = graph_.value(graph_.storage(v)).kind;
    return (kind == ValueKind::kParameter || kind == ValueKind::kState) &&
           graph_.value(v).dtype == like.dtype;
  }

  bool fits(const Node& convolution, const Node& norm) const {
    if (convolution.op != RT_OP_CONV2D || convolution.inputs.size() != 2 ||
        !norm.post_ops.empty() || convolution.phase != norm.phase)
      return false;
    const Value& y = graph_.value(norm.inputs[0]);
    if (!is_plain_temporary(y) || readers_[norm.inputs[0]] != 1) return false;
    for (size_t i = 1; i < norm.inputs.size(); ++i) {
      if (!outlives_steps(norm.inputs[i], y)) return false;
    }
    return outlives_steps(convolution.inputs[1], y) &&
           graph_.value(convolution.inputs[1]).dims[0] == graph_.value(norm.inputs[1]).dims[0];
  }

  // A value that is kept between runs, made by `op`.
  ValueId kept(const std::string& name, const char* op, std::vector<ValueId> inputs,
               std::vector<Attribute> attributes = {}) {
    const ValueId like = inputs[0];
    const ValueId v =
        rewriter_.value(name_ + name, ValueKind::kPacked, like, Dims(graph_.value(like).dims));
    build_.node_into(op, std::move(inputs), {v}, std::move(attributes));
    return v;
  }

  void fold(Node& convolution, Node& norm) {
    const ValueId weights = convolution.inputs[1], gamma = norm.inputs[1], beta = norm.inputs[2],
                  mean = norm.inputs[3], variance = norm.inputs[4];
    name_ = norm.layer + ".folded.";
    build_.layer = norm.layer;
    build_.phase = Phase::kPack;
    const double epsilon = number_attribute(norm, RT_ATTR_EPSILON, 1e-5);
    const ValueId shifted =
        kept("variance", RT_OP_SCALE, {variance}, {{RT_ATTR_ALPHA, 1.0}, {RT_ATTR_BETA, epsilon}});
    const ValueId deviation = kept("deviation", RT_OP_ACTIVATION, {shifted},
                                   {{RT_ATTR_FUNCTION, int64_t{RT_ACTIVATION_SQRT}}});
    const ValueId factor = kept("factor", RT_OP_DIVIDE, {gamma, deviation});
    const ValueId offset = kept("offset", RT_OP_MULTIPLY, {mean, factor});
    const ValueId bias = kept("bias", RT_OP_SUBTRACT, {beta, offset});
    const Dims dims = graph_.value(weights).dims;
    const ValueId rows = rewriter_.view(weights, 0, Dims{dims[0], element_count(dims) / dims[0]});
    const ValueId column = rewriter_.view(factor, 0, Dims{dims[0], 1});
    const ValueId scaled = kept("weight", RT_OP_MULTIPLY, {rows, column});
    convolution.inputs[1] = rewriter_.view(scaled, 0, Dims(dims));
    graph_.value(convolution.inputs[1]).name = name_ + "weights";
    norm.op = RT_OP_ADD;
    norm.inputs = {norm.inputs[0], bias};
    norm.attributes.clear();
  }

  Graph& graph_;
  Build build_;
  Rewriter rewriter_;
  std::vector<int> readers_;  // by storage value
  std::string name_;
};

}  // namespace

void fold_batch_norms(Graph& graph) { Folding(graph).run(); }

}  // namespace runtime::graph
