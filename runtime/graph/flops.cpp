// How many floating-point operations nodes take.
#include <algorithm>

#include "runtime/graph/build.h"
#include "runtime/graph/operation_set.h"
#include "runtime/graph/rules.h"

namespace runtime::graph {

namespace {

const Dims& dims(const Graph& graph, ValueId v) { return graph.value(v).dims; }

double count(const Graph& graph, ValueId v) {
  return static_cast<double>(element_count(dims(graph, v)));
}

// Each number that is computed from a filter of `w` [O,KH,KW,C/G] takes KH KW C/G multiply-adds.
double filter(const Graph& graph, ValueId w) {
  return count(graph, w) / static_cast<double>(dims(graph, w)[0]);
}

// The multiply-adds of a convolution of x [N,H,W,C] with w [O,KH,KW,C/G]: one filter for each
// element of its result, whose dims no operand of the node has.
double convolution_products(const Node& node, const Dims& x, const Dims& w) {
  const auto value = [&](const char* name, int64_t fallback) {
    return integer_attribute(node, name, fallback);
  };
  const int64_t rows =
      window_output(x[1], value(RT_ATTR_PAD_TOP, 0), value(RT_ATTR_PAD_BOTTOM, 0), w[1],
                    value(RT_ATTR_STRIDE_H, 1), value(RT_ATTR_DILATION_H, 1));
  const int64_t columns =
      window_output(x[2], value(RT_ATTR_PAD_LEFT, 0), value(RT_ATTR_PAD_RIGHT, 0), w[2],
                    value(RT_ATTR_STRIDE_W, 1), value(RT_ATTR_DILATION_W, 1));
  return static_cast<double>(x[0] * rows * columns) * static_cast<double>(element_count(w));
}

// `products` of T x D with D x T for each head and sample. With a causal mask a row sees (T+1)/2
// keys on average.
double products_of_attention(const Node& node, const Dims& qkv, double products) {
  const auto keys = static_cast<double>(qkv[1]);
  const double seen = integer_attribute(node, RT_ATTR_CAUSAL, 0) ? (keys + 1) / 2 : keys;
  return products * 2.0 * static_cast<double>(element_count(qkv)) / 3 * seen;
}

// A query and a key that it sees cost `by_width` products of the columns of both and `by_value` of
// those of values. Pairs of two documents are counted as seen.
double products_of_dots(const Graph& graph, const Node& node, size_t first, double by_width,
                        double by_value) {
  const Dims &q = dims(graph, node.inputs[first]), &k = dims(graph, node.inputs[first + 1]),
             &v = dims(graph, node.inputs[first + 2]);
  const int64_t heads = integer_attribute(node, RT_ATTR_HEADS, 1),
                shared = integer_attribute(node, RT_ATTR_KEY_HEADS, 0),
                window = integer_attribute(node, RT_ATTR_WINDOW, 0);
  const bool causal = integer_attribute(node, RT_ATTR_CAUSAL, 0) != 0;
  double pairs = causal ? 0 : static_cast<double>(q[1] * k[1]);
  for (int64_t i = 0; causal && i < q[1]; ++i) {
    const int64_t seen = std::max<int64_t>(i + k[1] - q[1] + 1, 0);
    pairs += static_cast<double>(window > 0 ? std::min(seen, window) : seen);
  }
  const int64_t value_columns = v[2] / (shared > 0 ? shared : heads) * heads;
  const double columns =
      by_width * static_cast<double>(q[2]) + by_value * static_cast<double>(value_columns);
  return 2.0 * static_cast<double>(q[0]) * pairs * columns;
}

}  // namespace

double matmul_flops(const Graph& graph, const Node& node) {
  const Dims& a = dims(graph, node.inputs[0]);
  const int64_t k = integer_attribute(node, RT_ATTR_TRANSPOSE_A, 0) ? a[a.size() - 2] : a.back();
  return 2.0 * count(graph, node.outputs[0]) * static_cast<double>(k);
}

double conv2d_flops(const Graph& graph, const Node& node) {
  return 2.0 * count(graph, node.outputs[0]) * filter(graph, node.inputs[1]);
}

double conv2d_backward_data_flops(const Graph& graph, const Node& node) {
  return 2.0 * count(graph, node.inputs[0]) * filter(graph, node.inputs[1]);
}

double conv2d_backward_weights_flops(const Graph& graph, const Node& node) {
  return 2.0 * count(graph, node.inputs[1]) * filter(graph, node.outputs[0]);
}

double conv2d_pool2d_flops(const Graph& graph, const Node& node) {
  return 2.0 * convolution_products(node, dims(graph, node.inputs[0]), dims(graph, node.inputs[1]));
}

double conv2d_pool2d_backward_weights_flops(const Graph& graph, const Node& node) {
  return 2.0 *
         convolution_products(node, dims(graph, node.inputs[0]), dims(graph, node.outputs[0]));
}

double attention_flops(const Graph& graph, const Node& node) {
  return products_of_attention(node, dims(graph, node.inputs[0]), 2);
}

// One of the five products computes the scores again.
double attention_backward_flops(const Graph& graph, const Node& node) {
  return products_of_attention(node, dims(graph, node.inputs[1]), 5);
}

double dot_product_attention_flops(const Graph& graph, const Node& node) {
  return products_of_dots(graph, node, 0, 1, 1);
}

double dot_product_attention_backward_flops(const Graph& graph, const Node& node) {
  return products_of_dots(graph, node, 1, 3, 2);
}

double flops(const Graph& graph, const Node& node) {
  const Operation& operation = operation_of(graph, node);
  if (operation.flops != nullptr) return operation.flops(graph, node);
  const bool moves = operation.kind == Kind::kCopies || operation.kind == Kind::kMoves ||
                     operation.kind == Kind::kConverts;
  return moves || node.outputs.empty() ? 0 : count(graph, node.outputs[0]);
}

double step_flops(const Graph& graph, int64_t passes) {
  double sum = 0;
  for (const Node& node : graph.nodes) {
    const bool once = node.phase == Phase::kUpdate;
    sum += flops(graph, node) * (once ? 1.0 : static_cast<double>(passes));
  }
  return sum;
}

}  // namespace runtime::graph
