// The graph of attention for cuDNN, and where its operands lie.
#ifndef BACKENDS_CUDA_CUDNN_ATTENTION_GRAPH_H_
#define BACKENDS_CUDA_CUDNN_ATTENTION_GRAPH_H_

#include "backends/cuda/cudnn_session.h"
#include "backends/gpu/attention.h"

namespace backends::cuda::attention {

// The whole batch, or a slice of it: `n`, `heads` and `key_heads` are then those of the slice.
struct Shape : gpu::AttentionShape {
  rt_dtype dtype;
  float scale;    // of the scores
  bool packed;    // q, k and v are the thirds of one tensor, as in `attention`
  int64_t lines;  // key heads of the tensors in memory, each with group() heads of queries
  int64_t all_heads() const { return lines * group(); }
  // With so many of the key heads.
  Shape with_lines(int64_t count) const {
    Shape shape = *this;
    shape.heads = count * group();
    shape.key_heads = count;
    return shape;
  }
};

// Tensors in memory and numbers that are passed by value. The enumerators are their unique ids in
// the graph.
enum Id : int64_t {
  kQ = 1,
  kK,
  kV,
  kY,
  kSaved,
  kDy,
  kDq,
  kDk,
  kDv,
  kScale,
  kLowest,
  kOne,
  kWindow,
  kFirstVirtual = 100,
};

// An operand in memory: of each sample `rows` rows, each `step` elements behind the one before,
// with `heads` heads of `columns` columns. It begins at element `begin` of a tensor; `tensor` says
// which of q, k and v that is, or of their gradients.
struct Layout {
  int64_t heads, rows, columns, step, begin, tensor;
  Sizes dims(int64_t samples) const { return {samples, heads, rows, columns}; }
  Sizes strides() const { return {rows * step, columns, step, 1}; }
};

// q, k, v, y, or the gradient of one of them.
Layout layout_of(const Shape& shape, Id id);

// The graph of the forward or the backward operation for a slice; its ids are those above. The
// forward saves the logarithm of the sum of exp(score) of each row. Throws RT_ERROR_DEVICE if the
// library does not know the operations.
std::shared_ptr<const Graph> make_graph(const Session& session, const Shape& shape, bool backward);

}  // namespace backends::cuda::attention

#endif  // BACKENDS_CUDA_CUDNN_ATTENTION_GRAPH_H_
