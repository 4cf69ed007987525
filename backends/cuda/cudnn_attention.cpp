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

namespace backends::cuda {
namespace {

using gpu::Kernel;
using gpu::Launch;
using gpu::Operation;
using rt::sdk::Error;
using rt::sdk::format;
using Sizes = std::array<int64_t, 4>;

constexpr size_t kMostPlans = 2;  // few, because making a plan compiles its kernel for about 1 s

// The whole batch, or a slice of it: `n` and `heads` are then those of the slice.
struct Shape : gpu::AttentionShape {
  rt_dtype dtype;
  int64_t all_heads;  // of the tensors in memory
  // Columns of y in memory, a third of those of qkv.
  int64_t width() const { return all_heads * d; }
};

Shape shape_of(const Operation& op) {
  const gpu::AttentionShape shape = gpu::attention_shape(op);
  return {shape, op.input(0).dtype, shape.heads};
}

// How many times longer our own kernel is expected to take than cuDNN's. README.md says from what
// this was estimated; nothing was measured.
int own_is_slower(const Shape& s, bool backward) {
  if (s.d <= gpu::kMostTensorColumns) return backward ? 5 : 3;
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
  kFirstVirtual = 100,
};

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
    const Tensor q = in_qkv(kQ), k = across(kK), v = in_qkv(kV), y = in_y(kY);
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
  // q.
  std::shared_ptr<const Graph> backward(const Session& session) {
    const Tensor q = in_qkv(kQ), k = across(kK), v = across(kV), y = in_y(kY), dy = in_y(kDy);
    const Tensor one = number(kOne), dq = in_qkv(kDq), dk = in_qkv(kDk), dv = in_qkv(kDv);
    Tensor delta = local({s_.n, s_.heads, s_.t, s_.d}, {s_.c() * s_.t, s_.t * s_.d, s_.d, 1},
                         CUDNN_DATA_FLOAT);
    point(CUDNN_POINTWISE_MUL, dy, y, delta);
    delta = map(CUDNN_POINTWISE_MUL, reduce(CUDNN_REDUCE_TENSOR_ADD, delta), one);
    const Tensor p = map(CUDNN_POINTWISE_EXP, map(CUDNN_POINTWISE_SUB, scores(q, k), saved()));
    multiply(turned(p), dy, dv);
    Tensor ds = square(CUDNN_DATA_FLOAT);
    multiply(dy, v, ds);
    ds = map(CUDNN_POINTWISE_SUB, map(CUDNN_POINTWISE_MUL, ds, one), delta);
    ds = map(CUDNN_POINTWISE_MUL, map(CUDNN_POINTWISE_MUL, ds, p), *scale_);
    multiply(turned(ds), q, dk);
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
  // in_qkv describes q, k or v as a part [n, heads, t, d] of qkv, or of its gradient; in_y
  // describes y or its gradient as [n, heads, t, d].
  Tensor in_qkv(Id id) {
    return in_memory({s_.n, s_.heads, s_.t, s_.d}, {s_.t * 3 * s_.width(), s_.d, 3 * s_.width(), 1},
                     io_, id);
  }
  Tensor in_y(Id id) {
    return in_memory({s_.n, s_.heads, s_.t, s_.d}, {s_.t * s_.width(), s_.d, s_.width(), 1}, io_,
                     id);
  }
  // Like in_qkv, but with the last two dimensions swapped: [n, heads, d, t].
  Tensor across(Id id) {
    return in_memory({s_.n, s_.heads, s_.d, s_.t}, {s_.t * 3 * s_.width(), s_.d, 1, 3 * s_.width()},
                     io_, id);
  }
  Tensor saved() {
    return in_memory({s_.n, s_.heads, s_.t, 1}, {s_.all_heads * s_.t, s_.t, 1, 1}, CUDNN_DATA_FLOAT,
                     kSaved);
  }
  Tensor number(Id id) {
    graph_->ids.push_back(id);
    const Sizes ones = {1, 1, 1, 1};
    Descriptor& d = describe(ones, ones, CUDNN_DATA_FLOAT, id)
                        .set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, true);
    return {&d.finalize(), ones, ones};
  }
  // A virtual tensor between two operations.
  Tensor local(const Sizes& dims, const Sizes& strides, cudnnDataType_t type) {
    Descriptor& d = describe(dims, strides, type, kFirstVirtual + locals_++)
                        .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, true);
    return {&d.finalize(), dims, strides};
  }
  Tensor square(cudnnDataType_t type) {
    return local({s_.n, s_.heads, s_.t, s_.t}, {s_.heads * s_.t * s_.t, s_.t * s_.t, s_.t, 1},
                 type);
  }

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
    const Tensor y =
        local({s_.n, s_.heads, s_.t, 1}, {s_.heads * s_.t, s_.t, 1, 1}, CUDNN_DATA_FLOAT);
    Descriptor& how =
        part(CUDNN_BACKEND_REDUCTION_DESCRIPTOR)
            .set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, mode)
            .set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
            .finalize();
    add(part(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
            .set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, how)
            .set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, *x.descriptor)
            .set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, *y.descriptor));
    return y;
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
  void reshape(const Tensor& x, const Tensor& y) {
    add(part(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR)
            .set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, *x.descriptor)
            .set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, *y.descriptor));
  }
  // The t x t matrices of x transposed, in 16 bits.
  Tensor turned(const Tensor& x) {
    const Tensor y = local(x.dims, swapped(x.strides), io_);
    reshape(x, y);
    return y;
  }
  // q k^T scale. With `causal`, scores of keys after the query become the lowest number.
  Tensor scores(const Tensor& q, const Tensor& k) {
    scale_ = number(kScale);
    Tensor s = square(CUDNN_DATA_FLOAT);
    multiply(q, k, s);
    s = map(CUDNN_POINTWISE_MUL, s, *scale_);
    if (!s_.causal) return s;
    const Tensor lowest = number(kLowest), row = square(CUDNN_DATA_INT32),
                 column = square(CUDNN_DATA_INT32), seen = square(CUDNN_DATA_BOOLEAN),
                 masked = square(CUDNN_DATA_FLOAT);
    point(CUDNN_POINTWISE_GEN_INDEX, s, nullptr, nullptr, row, CUDNN_DATA_INT32, 2);
    point(CUDNN_POINTWISE_GEN_INDEX, s, nullptr, nullptr, column, CUDNN_DATA_INT32, 3);
    point(CUDNN_POINTWISE_CMP_GE, row, &column, nullptr, seen, CUDNN_DATA_BOOLEAN);
    point(CUDNN_POINTWISE_BINARY_SELECT, s, &lowest, &seen, masked);
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
  float scale, lowest = std::numeric_limits<float>::lowest(), one = 1;
};

// Where a slice of the batch begins.
struct First {
  int64_t sample = 0, head = 0;
};

// Addresses for the graph of the slice of the batch `s` that begins there.
std::vector<void*> addresses_of(const Graph& graph, const Shape& s, bool backward,
                                const Numbers& numbers, const Launch& l, const First& first) {
  // The first number of the slice in a tensor of 16-bit numbers [n, t, thirds * width], in its
  // third number `i`.
  const auto slice = [&](const void* tensor, int64_t thirds, int64_t i) -> void* {
    return static_cast<uint16_t*>(const_cast<void*>(tensor)) +
           (first.sample * s.t * thirds + i) * s.width() + first.head * s.d;
  };
  std::vector<void*> addresses;
  for (const int64_t id : graph.ids) {
    switch (id) {
      case kQ:
      case kK:
      case kV:
        addresses.push_back(slice(l.inputs[backward ? 1 : 0], 3, id - kQ));
        break;
      case kY:
        addresses.push_back(slice(backward ? l.inputs[2] : l.outputs[0], 1, 0));
        break;
      case kSaved:
        addresses.push_back(static_cast<float*>(l.saved) +
                            (first.sample * s.all_heads + first.head) * s.t);
        break;
      case kDy:
        addresses.push_back(slice(l.inputs[0], 1, 0));
        break;
      case kDq:
      case kDk:
      case kDv:
        addresses.push_back(slice(l.outputs[0], 3, id - kDq));
        break;
      default: {
        const float& value = id == kScale    ? numbers.scale
                             : id == kLowest ? numbers.lowest
                                             : numbers.one;
        addresses.push_back(const_cast<float*>(&value));
      }
    }
  }
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

// The batch in slices of `shape`, some samples with all heads or some heads of one sample; `last`
// is what remains of the samples, or of the heads of each sample, with 0 samples or heads if
// nothing does. plans[i] computes a slice; rest[i], of the same engine, computes a last one.
struct Slices {
  Shape shape, last;
  Plans plans, rest;
};

// How many samples or heads each slice has where `all` are cut into slices of about equal size, of
// at most `most`, at least 1.
int64_t equal_slices(int64_t all, int64_t most) {
  const int64_t slices = (all + most - 1) / most;
  return (all + slices - 1) / slices;
}

// How many of `all` samples or heads to try after the plan for `tried` of them was found to need
// `needed` bytes of workspace: the workspace is taken to grow with them, and the slices are made
// about equal. Each try compiles a kernel, so the number falls by an eighth at least.
int64_t fewer(int64_t all, int64_t tried, int64_t needed, int64_t most_workspace) {
  const double fitting = static_cast<double>(tried) * static_cast<double>(most_workspace) /
                         static_cast<double>(needed);
  const int64_t most = std::min(static_cast<int64_t>(fitting), tried - (tried + 7) / 8);
  return most < 1 ? 1 : equal_slices(all, most);
}

// The samples whose q, k and v together have at most as many elements as the library is asked to
// count; 0: not even one has so few, nor any of its heads, which lie between those of others.
int64_t counted_samples(const Shape& s) { return gpu::kMostCounted / (3 * s.t * s.width()); }

// What remains of the batch, or of each of its samples, behind slices of that shape.
Shape last_of(const Shape& whole, const Shape& slice) {
  Shape last = slice;
  last.n = whole.n % slice.n;
  if (slice.heads < whole.heads) {
    last.n = 1;
    last.heads = whole.heads % slice.heads;
  }
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
    const bool one = slice.n == 1 && slice.heads == 1;
    const int64_t limit = one ? std::max(limits.usual, limits.of_one_head) : limits.usual;
    const int64_t needed = (*std::min_element(found.begin(), found.end(), needs_less))->workspace;
    if (needed <= limit) {
      std::erase_if(found, [&](const auto& plan) { return plan->workspace > limit; });
      return {slice, last_of(s, slice), found, {}};
    }
    if (one) {
      *without = format(
          "cuDNN's attention needs %.3g GB of workspace for one head of one sample, at most %.3g",
          static_cast<double>(needed) / 1e9, static_cast<double>(limit) / 1e9);
      return {};
    }
    if (slice.n > 1)
      slice.n = fewer(s.n, slice.n, needed, limit);
    else
      slice.heads = fewer(s.heads, slice.heads, needed, limit);
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
  const auto rows = static_cast<double>(s.rows());
  const auto y = rows * static_cast<double>(s.d) * sizeof(uint16_t), saved = rows * sizeof(float);
  if (!backward) return {"cudnn attention", 4 * y + saved, 2 * s.product_flops()};
  return {"cudnn attention_backward", 8 * y + 3 * saved, 5 * s.product_flops()};
}

// The kernel that queues plan `way` of the slices, one slice after another in the same workspace.
Kernel make(const Shape& s, bool backward, const Slices& slices, size_t way) {
  struct Step {
    std::shared_ptr<const Plan> plan;
    First first;
  };
  Kernel kernel;
  std::vector<Step> steps;
  const auto add = [&](const First& first, int64_t samples, int64_t heads) {
    const bool whole = samples == slices.shape.n && heads == slices.shape.heads;
    steps.push_back({(whole ? slices.plans : slices.rest)[way], first});
    const auto workspace = static_cast<uint64_t>(steps.back().plan->workspace);
    kernel.workspace_bytes = std::max(kernel.workspace_bytes, workspace);
    kernel.work.push_back(work_of(whole ? slices.shape : slices.last, backward));
  };
  for (int64_t sample = 0; sample < s.n; sample += slices.shape.n) {
    for (int64_t head = 0; head < s.heads; head += slices.shape.heads)
      add({sample, head}, std::min(slices.shape.n, s.n - sample),
          std::min(slices.shape.heads, s.heads - head));
  }
  kernel.implementation =
      format("cudnn attention engine %lld", static_cast<long long>(slices.plans[way]->engine));
  if (steps.size() > 1) kernel.implementation += format(", %zu slices", steps.size());
  (backward ? kernel.reads_saved : kernel.saved_bytes) =
      static_cast<uint64_t>(s.rows()) * sizeof(float);
  const Numbers numbers = {1.0f / std::sqrt(static_cast<float>(s.d))};
  kernel.run = [=](const Launch& l) {
    for (const Step& step : steps) {
      const Graph& graph = *step.plan->graph;
      run(*step.plan, addresses_of(graph, s, backward, numbers, l, step.first), l);
    }
  };
  return kernel;
}

}  // namespace

std::vector<Kernel> attention_kernels(const std::shared_ptr<Session>& session, const Operation& op,
                                      size_t most, const WorkspaceLimits& limits,
                                      std::string* without) {
  const bool backward = op.is(RT_OP_ATTENTION_BACKWARD);
  const Shape s = shape_of(op);
  if ((s.dtype != RT_FLOAT16 && s.dtype != RT_BFLOAT16) || s.rows() == 0) return {};
  std::vector<Kernel> kernels;
  without->clear();
  try {
    if (s.d % 8 != 0) {
      *without = format("cuDNN's attention needs heads of a multiple of 8 columns, not %lld",
                        static_cast<long long>(s.d));
    } else {
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
