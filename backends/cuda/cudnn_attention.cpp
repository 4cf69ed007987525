// Flash attention as the graph that cuDNN recognises, written out operation by operation. cuDNN's
// engines compile it for the shape when a plan is made. Sources: "cuDNN", chapter on fused
// attention, NVIDIA; Dao, "FlashAttention-2", 2023. The forward saves what our own kernel saves,
// the logarithm of the sum of exp(score) of each row, so forward and backward may come from
// different kernels.
#include "backends/cuda/cudnn_attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "backends/gpu/attention.h"
#include "backends/gpu/counted.h"
#include "rt/sdk/attention_operands.h"

namespace backends::cuda {
namespace {

using gpu::Kernel;
using gpu::Launch;
using gpu::Operation;
using rt::sdk::Error;
using rt::sdk::format;
using Sizes = std::array<int64_t, 4>;

constexpr size_t kMostPlans = 2;  // few, because making a plan compiles its kernel for about 1 s

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

bool is_backward(const Operation& op) {
  return op.is(RT_OP_ATTENTION_BACKWARD) || op.is(RT_OP_DOT_PRODUCT_ATTENTION_BACKWARD);
}

// The shape of `attention`, `dot_product_attention` and their gradients. If cuDNN is not asked for
// the operation, `without` receives the reason.
Shape shape_of(const Operation& op, std::string* without) {
  const rt_dtype dtype = op.input(0).dtype;
  if (op.is(RT_OP_ATTENTION) || op.is(RT_OP_ATTENTION_BACKWARD)) {
    const gpu::AttentionShape s = gpu::attention_shape(op);
    return {s, dtype, 1.0f / std::sqrt(static_cast<float>(s.d)), true, s.key_heads};
  }
  const rt::sdk::DotProductAttention given =
      is_backward(op) ? rt::sdk::dot_product_attention_backward_shape(op, dtype)
                      : rt::sdk::dot_product_attention_shape(op, dtype);
  if (given.probability > 0) *without = "cuDNN draws other random numbers for dropout";
  if (given.documents > 0) *without = "cuDNN is not asked for attention within documents";
  if (given.causal && given.queries != given.keys)
    *without = "cuDNN is not asked for causal attention with fewer queries than keys";
  const gpu::AttentionShape s = {
      given.samples,   given.queries,     given.heads,
      given.width,     given.causal,      given.keys,
      given.key_heads, given.value_width, given.window < given.keys ? given.window : 0};
  return {s, dtype, static_cast<float>(given.scale), false, s.key_heads};
}

// How many times longer our own kernel is expected to take than cuDNN's. README.md says from what
// this was estimated; nothing was measured.
int own_is_slower(const Shape& s, bool backward) {
  if (std::max(s.d, s.e) <= gpu::kMostTensorColumns) return backward ? 5 : 3;
  return backward ? 30 : 20;
}

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

  Descriptor& describe(const Sizes& dims, const Sizes& strides, cudnnDataType_t type, int64_t id) {
    return part(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
        .set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type)
        .set_integers(CUDNN_ATTR_TENSOR_DIMENSIONS, dims)
        .set_integers(CUDNN_ATTR_TENSOR_STRIDES, strides)
        .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id)
        .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, int64_t{16});
  }
  Tensor in_memory(const Sizes& dims, const Sizes& strides, cudnnDataType_t type, Id id) {
    graph_->ids.push_back(id);
    return {&describe(dims, strides, type, id).finalize(), dims, strides};
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
    Descriptor& d =
        describe(ones, ones, type, id).set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, true);
    return {&d.finalize(), ones, ones};
  }
  // A virtual tensor between two operations.
  Tensor local(const Sizes& dims, const Sizes& strides, cudnnDataType_t type) {
    Descriptor& d = describe(dims, strides, type, kFirstVirtual + locals_++)
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

// Numbers that a graph gets by value; cuDNN reads them at launch.
struct Numbers {
  float scale;
  int32_t window;
  float lowest = std::numeric_limits<float>::lowest(), one = 1;
};

// Where a slice of the batch begins: at this sample and key head.
struct First {
  int64_t sample = 0, line = 0;
};

// Addresses for the graph of the slice that begins there; `s` is the whole batch.
std::vector<void*> addresses_of(const Graph& graph, const Shape& s, bool backward,
                                const Numbers& numbers, const Launch& l, const First& first) {
  // The first of the slice's 16-bit numbers in an operand.
  const auto slice = [&](Id id, const void* const* tensors) -> void* {
    const Layout layout = layout_of(s, id);
    const int64_t head = first.line * (layout.heads / s.key_heads);
    return static_cast<uint16_t*>(const_cast<void*>(tensors[layout.tensor])) + layout.begin +
           first.sample * layout.rows * layout.step + head * layout.columns;
  };
  const auto number = [](const auto& value) -> void* {
    return const_cast<void*>(static_cast<const void*>(&value));
  };
  const auto address = [&](Id id) -> void* {
    switch (id) {
      case kQ:
      case kK:
      case kV:
        return slice(id, l.inputs + (backward ? 1 : 0));
      case kY:
        return backward ? slice(id, l.inputs + (s.packed ? 2 : 4)) : slice(id, l.outputs);
      case kSaved:
        return static_cast<float*>(l.saved) +
               (first.sample * s.heads + first.line * s.group()) * s.t;
      case kDy:
        return slice(id, l.inputs);
      case kDq:
      case kDk:
      case kDv:
        return slice(id, l.outputs);
      case kScale:
        return number(numbers.scale);
      case kLowest:
        return number(numbers.lowest);
      case kOne:
        return number(numbers.one);
      case kWindow:
        return number(numbers.window);
      case kFirstVirtual:
        break;
    }
    return nullptr;
  };
  std::vector<void*> addresses;
  for (const int64_t id : graph.ids) addresses.push_back(address(static_cast<Id>(id)));
  return addresses;
}

using Plans = std::vector<std::shared_ptr<const Plan>>;

// Plans for the graph of s, whatever workspace they need.
Plans plans_of(const std::shared_ptr<Session>& session, const Shape& s, bool backward,
               size_t most) {
  AttentionBuilder builder(*session, s);
  const auto graph = backward ? builder.backward(*session) : builder.forward(*session);
  Wishes wishes;
  wishes.compiles_at_run_time = true;
  wishes.most_workspace = std::numeric_limits<int64_t>::max();
  return find_plans(session, graph, wishes, std::min(most, kMostPlans));
}

// The batch in slices of `shape`: some samples with all heads, or some key heads of one sample with
// their queries. `last` is what remains of the samples, or of the heads of each sample, with 0
// samples or heads if nothing does. plans[i] computes a slice; rest[i], of the same engine,
// computes a last one.
struct Slices {
  Shape shape, last;
  Plans plans, rest;
};

// How many samples or key heads each slice has where `all` are cut into slices of about equal size,
// of at most `most`, at least 1.
int64_t equal_slices(int64_t all, int64_t most) {
  const int64_t slices = (all + most - 1) / most;
  return (all + slices - 1) / slices;
}

// How many of `all` samples or key heads to try after the plan for `tried` of them was found to
// need `needed` bytes of workspace: the workspace is taken to grow with them, and the slices are
// made about equal. Each try compiles a kernel, so the number falls by an eighth at least.
int64_t fewer(int64_t all, int64_t tried, int64_t needed, int64_t most_workspace) {
  const double fitting = static_cast<double>(tried) * static_cast<double>(most_workspace) /
                         static_cast<double>(needed);
  const int64_t most = std::min(static_cast<int64_t>(fitting), tried - (tried + 7) / 8);
  return most < 1 ? 1 : equal_slices(all, most);
}

// The samples whose operands each have at most as many elements, in memory, as the library is asked
// to count; 0: not even one has so few, nor any of its heads, which lie between those of others.
int64_t counted_samples(const Shape& s) {
  int64_t most = 0;
  for (const Id id : {kQ, kK, kV, kY}) {
    const Layout layout = layout_of(s, id);
    most = std::max(most, layout.rows * layout.step);
  }
  return gpu::kMostCounted / most;
}

// What remains of the batch, or of each of its samples, behind slices of that shape.
Shape last_of(const Shape& whole, const Shape& slice) {
  if (slice.key_heads < whole.key_heads) return slice.with_lines(whole.key_heads % slice.key_heads);
  Shape last = slice;
  last.n = whole.n % slice.n;
  return last;
}

// Plans for the largest slices that are counted and whose workspace is within the limits, without
// those for the last ones. If there are none, `without` receives the reason.
Slices find_largest(const std::shared_ptr<Session>& session, const Shape& s, bool backward,
                    size_t most, const WorkspaceLimits& limits, std::string* without) {
  const auto needs_less = [](const auto& a, const auto& b) { return a->workspace < b->workspace; };
  if (counted_samples(s) == 0) {
    *without = format("cuDNN is asked for at most %lld elements, and one sample has more",
                      static_cast<long long>(gpu::kMostCounted));
    return {};
  }
  Shape slice = s;
  slice.n = equal_slices(s.n, counted_samples(s));
  while (true) {
    Plans found = plans_of(session, slice, backward, most);
    if (found.empty()) {
      *without = "cuDNN has no engine for this attention";
      return {};
    }
    const bool one = slice.n == 1 && slice.key_heads == 1;
    const int64_t limit = one ? std::max(limits.usual, limits.of_one_head) : limits.usual;
    const int64_t needed = (*std::min_element(found.begin(), found.end(), needs_less))->workspace;
    if (needed <= limit) {
      std::erase_if(found, [&](const auto& plan) { return plan->workspace > limit; });
      return {slice, last_of(s, slice), found, {}};
    }
    if (one) {
      *without = format(
          "cuDNN's attention needs %.3g GB of workspace for one key head of one sample, at most "
          "%.3g",
          static_cast<double>(needed) / 1e9, static_cast<double>(limit) / 1e9);
      return {};
    }
    if (slice.n > 1)
      slice.n = fewer(s.n, slice.n, needed, limit);
    else
      slice = slice.with_lines(fewer(s.key_heads, slice.key_heads, needed, limit));
  }
}

// The slices with plans of the same engines for all of them.
Slices find_slices(const std::shared_ptr<Session>& session, const Shape& s, bool backward,
                   size_t most, const WorkspaceLimits& limits, std::string* without) {
  Slices slices = find_largest(session, s, backward, most, limits, without);
  if (slices.plans.empty() || slices.last.rows() == 0) return slices;
  const Plans rest = plans_of(session, slices.last, backward, most);
  for (auto plan = slices.plans.begin(); plan != slices.plans.end();) {
    const auto same = std::find_if(rest.begin(), rest.end(), [&](const auto& other) {
      return other->engine == (*plan)->engine && other->workspace <= limits.usual;
    });
    if (same != rest.end()) slices.rest.push_back(*same);
    plan = same != rest.end() ? plan + 1 : slices.plans.erase(plan);
  }
  if (slices.plans.empty()) *without = "cuDNN has no engine for the last slice of this batch";
  return slices;
}

// What the graph of one slice costs: the products, the operands in 16 bits, and for the backward
// operation delta, the sum of dy y of each row, which is written and read again.
gpu::Work work_of(const Shape& s, bool backward) {
  const auto bytes = [&](Id id) {
    const Layout layout = layout_of(s, id);
    return static_cast<double>(s.n * layout.heads * layout.rows * layout.columns) *
           sizeof(uint16_t);
  };
  const double saved = static_cast<double>(s.rows()) * sizeof(float),
               all = bytes(kQ) + bytes(kK) + bytes(kV) + bytes(kY);
  if (!backward) return {"cudnn attention", all + saved, 2 * s.product_flops()};
  return {"cudnn attention_backward", 2 * all + 3 * saved, 5 * s.product_flops()};
}

// The kernel that queues plan `way` of the slices, one slice after another in the same workspace.
Kernel make(const Shape& s, bool backward, const Slices& slices, size_t way) {
  struct Step {
    std::shared_ptr<const Plan> plan;
    First first;
  };
  Kernel kernel;
  std::vector<Step> steps;
  const auto add = [&](const First& first, int64_t samples, int64_t lines) {
    const bool whole = samples == slices.shape.n && lines == slices.shape.key_heads;
    steps.push_back({(whole ? slices.plans : slices.rest)[way], first});
    const auto workspace = static_cast<uint64_t>(steps.back().plan->workspace);
    kernel.workspace_bytes = std::max(kernel.workspace_bytes, workspace);
    kernel.work.push_back(work_of(whole ? slices.shape : slices.last, backward));
  };
  for (int64_t sample = 0; sample < s.n; sample += slices.shape.n) {
    for (int64_t line = 0; line < s.key_heads; line += slices.shape.key_heads)
      add({sample, line}, std::min(slices.shape.n, s.n - sample),
          std::min(slices.shape.key_heads, s.key_heads - line));
  }
  kernel.implementation =
      format("cudnn attention engine %lld", static_cast<long long>(slices.plans[way]->engine));
  if (steps.size() > 1) kernel.implementation += format(", %zu slices", steps.size());
  (backward ? kernel.reads_saved : kernel.saved_bytes) =
      static_cast<uint64_t>(s.rows()) * sizeof(float);
  const Numbers numbers = {s.scale, static_cast<int32_t>(s.window)};
  kernel.run = [=](const Launch& l) {
    for (const Step& step : steps) {
      const Graph& graph = *step.plan->graph;
      run(*step.plan, addresses_of(graph, s, backward, numbers, l, step.first), l);
    }
  };
  return kernel;
}

}  // namespace

bool is_attention(const Operation& op) {
  return op.is(RT_OP_ATTENTION) || op.is(RT_OP_DOT_PRODUCT_ATTENTION) || is_backward(op);
}

std::vector<Kernel> attention_kernels(const std::shared_ptr<Session>& session, const Operation& op,
                                      size_t most, const WorkspaceLimits& limits,
                                      std::string* without) {
  const rt_dtype dtype = op.input(0).dtype;
  if (dtype != RT_FLOAT16 && dtype != RT_BFLOAT16) return {};
  const bool backward = is_backward(op);
  without->clear();
  const Shape s = shape_of(op, without);
  if (s.rows() == 0 || s.keys == 0) return {};
  std::vector<Kernel> kernels;
  try {
    if (s.d % 8 != 0 || s.e % 8 != 0) {
      *without = format("cuDNN's attention needs heads of a multiple of 8 columns, not %lld",
                        static_cast<long long>(s.d % 8 != 0 ? s.d : s.e));
    } else if (without->empty()) {
      const Slices slices = find_slices(session, s, backward, most, limits, without);
      for (size_t way = 0; way < slices.plans.size(); ++way) {
        kernels.push_back(make(s, backward, slices, way));
      }
    }
  } catch (const Error& refusal) {  // this version of the library does not support the graph
    *without = refusal.what();
  }
  if (!without->empty()) {
    *without +=
        format("; by estimate, ours takes about %d times as long", own_is_slower(s, backward));
  }
  return kernels;
}

}  // namespace backends::cuda
