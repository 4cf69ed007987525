// Flash attention as the graph that cuDNN recognises, written out operation by operation. Sources:
// "cuDNN", chapter on fused attention, NVIDIA; Dao, "FlashAttention-2", 2023.
#include "backends/cuda/cudnn_attention_graph.h"

#include <algorithm>
#include <optional>

namespace backends::cuda::attention {
namespace {

// A descriptor in the graph with its sizes; strides are in elements.
struct Tensor {
  const Descriptor* descriptor;
  Sizes dims, strides;
};

Sizes swapped(Sizes sizes) {
  std::swap(sizes[2], sizes[3]);
  return sizes;
}

// Builds the graph of forward or backward for one shape.
class AttentionBuilder {
 public:
  AttentionBuilder(const Session& session, const Shape& s)
      : s_(s),
        io_(s.dtype == RT_FLOAT16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16),
        graph_(std::make_shared<Graph>(session.call)) {}

  std::shared_ptr<const Graph> forward(const Session& session) {
    const Tensor q = operand(kQ), k = across(kK), v = operand(kV), y = operand(kY);
    const Tensor s = scores(q, k);
    const Tensor largest = reduce(CUDNN_REDUCE_TENSOR_MAX, s);
    const Tensor e = map(CUDNN_POINTWISE_EXP, map(CUDNN_POINTWISE_SUB, s, largest));
    const Tensor sum = reduce(CUDNN_REDUCE_TENSOR_ADD, e);
    point(CUDNN_POINTWISE_ADD, largest, map(CUDNN_POINTWISE_LOG, sum), saved());
    const Tensor p = local(e.dims, e.strides, io_);
    point(CUDNN_POINTWISE_DIV, e, sum, p);
    multiply(p, v, y);
    return finalized(session);
  }

  // With p = exp(s - saved): dv = p^T dy, ds = p (dy v^T - sum(dy y)) scale, dq = ds k, dk = ds^T
  // q. The heads of queries that share a key head each have a gradient of it; their sum is dk, dv.
  std::shared_ptr<const Graph> backward(const Session& session) {
    const Tensor q = operand(kQ), k = across(kK), v = across(kV), y = operand(kY),
                 dy = operand(kDy);
    const Tensor one = number(kOne), dq = operand(kDq), dk = operand(kDk), dv = operand(kDv);
    Tensor delta = dense(s_.t, s_.e, CUDNN_DATA_FLOAT);
    point(CUDNN_POINTWISE_MUL, dy, y, delta);
    delta = map(CUDNN_POINTWISE_MUL, reduce(CUDNN_REDUCE_TENSOR_ADD, delta), one);
    const Tensor p = map(CUDNN_POINTWISE_EXP, map(CUDNN_POINTWISE_SUB, scores(q, k), saved()));
    multiply_for_keys(turned(p), dy, dv);
    Tensor ds = square(CUDNN_DATA_FLOAT);
    multiply(dy, v, ds);
    ds = map(CUDNN_POINTWISE_SUB, map(CUDNN_POINTWISE_MUL, ds, one), delta);
    ds = map(CUDNN_POINTWISE_MUL, map(CUDNN_POINTWISE_MUL, ds, p), *scale_);
    multiply_for_keys(turned(ds), q, dk);
    const Tensor straight = local(swapped(k.dims), swapped(k.strides), io_);
    reshape(k, straight);
    multiply(ds, straight, dq);
    return finalized(session);
  }

 private:
  Descriptor& part(cudnnBackendDescriptorType_t type) { return graph_->part(type); }
  std::shared_ptr<const Graph> finalized(const Session& session) {
    graph_->finalize(session);
    return graph_;
  }
  void add(Descriptor& operation) { graph_->operations.push_back(operation.finalize().get()); }

  // ---- tensors

  Tensor in_memory(const Sizes& dims, const Sizes& strides, cudnnDataType_t type, Id id) {
    graph_->ids.push_back(id);
    return {&graph_->tensor(dims, strides, type, id).finalize(), dims, strides};
  }
  Tensor operand(Id id) {
    const Layout layout = layout_of(s_, id);
    return in_memory(layout.dims(s_.n), layout.strides(), io_, id);
  }
  // Like operand(), but with the last two dimensions swapped.
  Tensor across(Id id) {
    const Layout layout = layout_of(s_, id);
    return in_memory(swapped(layout.dims(s_.n)), swapped(layout.strides()), io_, id);
  }
  Tensor saved() {
    return in_memory({s_.n, s_.heads, s_.t, 1}, {s_.all_heads() * s_.t, s_.t, 1, 1},
                     CUDNN_DATA_FLOAT, kSaved);
  }
  Tensor number(Id id, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    graph_->ids.push_back(id);
    const Sizes ones = {1, 1, 1, 1};
    Descriptor& d = graph_->tensor(ones, ones, type, id)
                        .set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, true);
    return {&d.finalize(), ones, ones};
  }
  // A virtual tensor between two operations.
  Tensor local(const Sizes& dims, const Sizes& strides, cudnnDataType_t type) {
    Descriptor& d = graph_->tensor(dims, strides, type, kFirstVirtual + locals_++)
                        .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, true);
    return {&d.finalize(), dims, strides};
  }
  // A virtual matrix for each head of queries; one of queries and keys.
  Tensor dense(int64_t rows, int64_t columns, cudnnDataType_t type) {
    return local({s_.n, s_.heads, rows, columns},
                 {s_.heads * rows * columns, rows * columns, columns, 1}, type);
  }
  Tensor square(cudnnDataType_t type) { return dense(s_.t, s_.keys, type); }

  // ---- operations

  void point(cudnnPointwiseMode_t mode, const Tensor& x, const Tensor* b, const Tensor* condition,
             const Tensor& y, cudnnDataType_t computed = CUDNN_DATA_FLOAT, int64_t axis = -1) {
    Descriptor& how = part(CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
                          .set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode)
                          .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, computed);
    if (axis >= 0) how.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, axis);
    how.finalize();
    Descriptor& d = part(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    d.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    d.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *x.descriptor);
    if (b != nullptr) d.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b->descriptor);
    if (condition != nullptr) {
      d.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, *condition->descriptor);
    }
    add(d.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *y.descriptor));
  }
  void point(cudnnPointwiseMode_t mode, const Tensor& x, const Tensor& b, const Tensor& y) {
    point(mode, x, &b, nullptr, y);
  }
  // Applies a pointwise operation to x (and b) and returns a result shaped like x, in float32.
  Tensor map(cudnnPointwiseMode_t mode, const Tensor& x) {
    const Tensor y = local(x.dims, x.strides, CUDNN_DATA_FLOAT);
    point(mode, x, nullptr, nullptr, y);
    return y;
  }
  Tensor map(cudnnPointwiseMode_t mode, const Tensor& x, const Tensor& b) {
    const Tensor y = local(x.dims, x.strides, CUDNN_DATA_FLOAT);
    point(mode, x, b, y);
    return y;
  }
  // Reduces x over the last dimension.
  Tensor reduce(cudnnReduceTensorOp_t mode, const Tensor& x) {
    const Tensor y = dense(s_.t, 1, CUDNN_DATA_FLOAT);
    reduce(mode, x, y);
    return y;
  }
  // Reduces x to the dimensions of y.
  void reduce(cudnnReduceTensorOp_t mode, const Tensor& x, const Tensor& y) {
    Descriptor& how =
        part(CUDNN_BACKEND_REDUCTION_DESCRIPTOR)
            .set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, mode)
            .set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
            .finalize();
    add(part(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
            .set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, how)
            .set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, *x.descriptor)
            .set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, *y.descriptor));
  }
  void multiply(const Tensor& a, const Tensor& b, const Tensor& c) {
    Descriptor& how = part(CUDNN_BACKEND_MATMUL_DESCRIPTOR)
                          .set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
                          .finalize();
    add(part(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
            .set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how)
            .set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, *a.descriptor)
            .set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, *b.descriptor)
            .set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, *c.descriptor));
  }
  // dk or dv = a b, added up over the heads of queries that share a key head.
  void multiply_for_keys(const Tensor& a, const Tensor& b, const Tensor& c) {
    if (s_.group() == 1) return multiply(a, b, c);
    const Tensor of_each_head = dense(c.dims[2], c.dims[3], io_);
    multiply(a, b, of_each_head);
    reduce(CUDNN_REDUCE_TENSOR_ADD, of_each_head, c);
  }
  void reshape(const Tensor& x, const Tensor& y) {
    add(part(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR)
            .set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, *x.descriptor)
            .set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, *y.descriptor));
  }
  // The matrices of queries and keys of x transposed, in 16 bits.
  Tensor turned(const Tensor& x) {
    const Tensor y = local(swapped(x.dims), swapped(x.strides), io_);
    reshape(x, y);
    return y;
  }
  // q k^T scale. The scores of keys that the query does not see become the lowest number.
  Tensor scores(const Tensor& q, const Tensor& k) {
    scale_ = number(kScale);
    Tensor s = square(CUDNN_DATA_FLOAT);
    multiply(q, k, s);
    s = map(CUDNN_POINTWISE_MUL, s, *scale_);
    if (!s_.causal) return s;
    const Tensor lowest = number(kLowest), query = index(s, 2), key = index(s, 3);
    s = kept(CUDNN_POINTWISE_CMP_GE, query, key, s, lowest);
    if (s_.window == 0) return s;
    const Tensor behind = square(CUDNN_DATA_INT32), window = number(kWindow, CUDNN_DATA_INT32);
    point(CUDNN_POINTWISE_ADD, key, &window, nullptr, behind, CUDNN_DATA_INT32);
    return kept(CUDNN_POINTWISE_CMP_GT, behind, query, s, lowest);
  }
  // The number of the row (axis 2) or column (3) of each score.
  Tensor index(const Tensor& scores, int64_t axis) {
    const Tensor made = square(CUDNN_DATA_INT32);
    point(CUDNN_POINTWISE_GEN_INDEX, scores, nullptr, nullptr, made, CUDNN_DATA_INT32, axis);
    return made;
  }
  // The scores where a compared with b holds, and `lowest` elsewhere.
  Tensor kept(cudnnPointwiseMode_t compared, const Tensor& a, const Tensor& b, const Tensor& scores,
              const Tensor& lowest) {
    const Tensor holds = square(CUDNN_DATA_BOOLEAN), masked = square(CUDNN_DATA_FLOAT);
    point(compared, a, &b, nullptr, holds, CUDNN_DATA_BOOLEAN);
    point(CUDNN_POINTWISE_BINARY_SELECT, scores, &lowest, &holds, masked);
    return masked;
  }

  const Shape s_;
  const cudnnDataType_t io_;
  const std::shared_ptr<Graph> graph_;
  std::optional<Tensor> scale_;
  int64_t locals_ = 0;
};

}  // namespace

Layout layout_of(const Shape& s, Id id) {
  const auto of_queries = [&](int64_t columns, int64_t parts) {
    return Layout{s.heads, s.t, columns, parts * s.all_heads() * columns, 0, 0};
  };
  const auto of_keys = [&](int64_t columns, int64_t part) {
    const int64_t width = s.lines * columns;
    return s.packed ? Layout{s.key_heads, s.keys, columns, 3 * width, part * width, 0}
                    : Layout{s.key_heads, s.keys, columns, width, 0, part};
  };
  switch (id) {
    case kQ:
    case kDq:
      return of_queries(s.d, s.packed ? 3 : 1);
    case kK:
    case kDk:
      return of_keys(s.d, 1);
    case kV:
    case kDv:
      return of_keys(s.e, 2);
    default:  // y and its gradient
      return of_queries(s.e, 1);
  }
}

std::shared_ptr<const Graph> make_graph(const Session& session, const Shape& shape, bool backward) {
  AttentionBuilder builder(session, shape);
  return backward ? builder.backward(session) : builder.forward(session);
}

}  // namespace backends::cuda::attention
