// attention, dot_product_attention and their gradients, which are one computation: the operands of
// attention are parts of qkv. The forward saves log(sum of exp(scores)) of every row, as double [N,
// heads, T].
#include <algorithm>
#include <cmath>

#include "backends/reference/check.h"
#include "backends/reference/families.h"
#include "backends/reference/row.h"
#include "rt/sdk/attention_operands.h"

namespace backends::reference {
namespace {

using rt::sdk::DotProductAttention;
using rt::sdk::PhiloxCounter;
using rt::sdk::PhiloxKey;

// The rows of one head of one sample. T may be const.
template <typename T>
struct Rows {
  T* data;
  int64_t step;
  T* operator[](int64_t i) const { return data + i * step; }
};

// The rows of all heads, which lie side by side. A row of all heads begins `step` elements behind
// the one before, and each sample has `length` of them.
template <typename T>
struct Heads {
  T* data;
  int64_t length, step, width;
  Rows<T> of(int64_t sample, int64_t head) const {
    return {data + sample * length * step + head * width, step};
  }
};

// The shape, and the operands that both forms of the operation have beside their numbers.
struct Problem {
  const DotProductAttention& s;
  const int32_t* documents = nullptr;
  PhiloxKey key{};
  int64_t base = 0;

  Problem(const DotProductAttention& shape, const Buffers& b, uint32_t optional) : s(shape) {
    if (s.probability > 0) {
      key = s.key_of(*b.input<int64_t>(optional));
      base = *b.input<int64_t>(optional + 1);
    }
    if (s.documents > 0) documents = b.input<int32_t>(optional + 2);
  }
  // Calls body(j) for the keys that query i of a sample sees, in their order.
  template <typename Body>
  void each_key(int64_t sample, int64_t i, Body&& body) const {
    const int32_t* const of = documents ? documents + sample * s.documents : nullptr;
    for (int64_t j = s.first_key(i); j < s.end_key(i); ++j) {
      if (!of || (of[i] >= 0 && of[i] == of[s.key_documents() + j])) body(j);
    }
  }
  // What dropout multiplies a weight by.
  double factor(int64_t sample, int64_t head, int64_t i, int64_t j) const {
    if (s.probability == 0) return 1;
    const PhiloxCounter words = rt::sdk::philox4x32_10(
        {static_cast<uint32_t>(j / 4), static_cast<uint32_t>(i),
         static_cast<uint32_t>(s.first_head + head), static_cast<uint32_t>(base + sample)},
        key);
    const double u = (words[j % 4] >> 8) * 0x1p-24;
    return u >= s.probability ? 1 / (1 - s.probability) : 0;
  }
};

template <typename T>
double dot(const T* a, const T* b, int64_t width) {
  double sum = 0;
  for (int64_t d = 0; d < width; ++d) sum += static_cast<double>(a[d]) * static_cast<double>(b[d]);
  return sum;
}

// to += factor x.
template <typename T>
void add_scaled(double* to, double factor, const T* x, int64_t width) {
  for (int64_t d = 0; d < width; ++d) to[d] += factor * static_cast<double>(x[d]);
}

// The workspace holds scores [S] and y_i [E].
template <typename T>
void forward(const Problem& p, const Heads<const T>& all_q, const Heads<const T>& all_k,
             const Heads<const T>& all_v, const Heads<T>& all_y, const Buffers& b) {
  const DotProductAttention& s = p.s;
  double *const scores = b.scratch<double>(), *const sums = scores + s.keys;
  auto* saved = static_cast<double*>(b.saved);
  for (int64_t row = 0; row < s.rows(); ++row) {
    const int64_t i = row % s.queries, h = row / s.queries % s.heads, n = row / s.queries / s.heads;
    const auto q = all_q.of(n, h), k = all_k.of(n, h / s.group()), v = all_v.of(n, h / s.group());
    int64_t seen = 0;
    p.each_key(n, i, [&](int64_t j) { scores[seen++] = s.scale * dot(q[i], k[j], s.width); });
    const RowSum sum = seen > 0 ? sum_row(scores, seen) : RowSum{};
    std::fill_n(sums, s.value_width, 0.0);
    seen = 0;
    p.each_key(n, i, [&](int64_t j) {
      const double weight = std::exp(sum.log_probability(scores[seen++]));
      const double factor = p.factor(n, h, i, j);
      if (factor != 0) add_scaled(sums, weight * factor, v[j], s.value_width);
    });
    T* const y = all_y.of(n, h)[i];
    for (int64_t d = 0; d < s.value_width; ++d) y[d] = static_cast<T>(sums[d]);
    saved[row] = sum.largest + sum.log_sum;
  }
}

// Operands and results of the gradient.
template <typename T>
struct Gradient {
  Heads<const T> dy, q, k, v, y;
  Heads<T> dq, dk, dv;
};

template <typename T>
void store(const double* sums, const Rows<T>& to, int64_t rows, int64_t width) {
  for (int64_t e = 0; e < rows * width; ++e) to[e / width][e % width] = static_cast<T>(sums[e]);
}

// Adds to dq, dk and dv what the rows of query head h of sample n give.
template <typename T>
void add_gradients(const Problem& p, const Gradient<T>& g, const double* saved, int64_t n,
                   int64_t h, const Rows<double>& dq, const Rows<double>& dk,
                   const Rows<double>& dv) {
  const DotProductAttention& s = p.s;
  const auto dy = g.dy.of(n, h), q = g.q.of(n, h), y = g.y.of(n, h);
  const auto k = g.k.of(n, h / s.group()), v = g.v.of(n, h / s.group());
  for (int64_t i = 0; i < s.queries; ++i) {
    const double log_sum = saved[(n * s.heads + h) * s.queries + i];
    const double both = dot(dy[i], y[i], s.value_width);
    p.each_key(n, i, [&](int64_t j) {
      const double weight = std::exp(s.scale * dot(q[i], k[j], s.width) - log_sum);
      const double factor = p.factor(n, h, i, j);
      const double dw = factor != 0 ? factor * dot(dy[i], v[j], s.value_width) : 0;
      const double ds = s.scale * weight * (dw - both);
      add_scaled(dq[i], ds, k[j], s.width);
      add_scaled(dk[j], ds, q[i], s.width);
      if (factor != 0) add_scaled(dv[j], weight * factor, dy[i], s.value_width);
    });
  }
}

// The number of sums for one key head: dq [T][D], dk [S][D] and dv [S][E].
int64_t gradient_sums(const DotProductAttention& s) {
  return (s.queries + s.keys) * s.width + s.keys * s.value_width;
}

// The workspace holds these sums.
template <typename T>
void backward(const Problem& p, const Gradient<T>& g, const Buffers& b) {
  const DotProductAttention& s = p.s;
  const Rows<double> dq{b.scratch<double>(), s.width}, dk{dq[s.queries], s.width},
      dv{dk[s.keys], s.value_width};
  const auto* saved = static_cast<const double*>(b.saved);
  for (int64_t line = 0; line < s.samples * s.key_heads; ++line) {
    const int64_t n = line / s.key_heads, shared = line % s.key_heads;
    std::fill_n(dk.data, s.keys * (s.width + s.value_width), 0.0);
    for (int64_t h = shared * s.group(); h < (shared + 1) * s.group(); ++h) {
      std::fill_n(dq.data, s.queries * s.width, 0.0);
      add_gradients(p, g, saved, n, h, dq, dk, dv);
      store(dq.data, g.dq.of(n, h), s.queries, s.width);
    }
    store(dk.data, g.dk.of(n, shared), s.keys, s.width);
    store(dv.data, g.dv.of(n, shared), s.keys, s.value_width);
  }
}

// The sizes of attention, from its operand qkv.
DotProductAttention packed_shape(const Operation& op, uint32_t qkv) {
  const Dims dims = dims_of(input_of_rank(op, qkv, "qkv", 3));
  const int64_t heads = integer_at_least(op, RT_ATTR_HEADS, 0, 1);
  if (dims[2] < 1 || dims[2] % (3 * heads) != 0) {
    op.fail(
        rt::sdk::format("qkv has %lld features, expected q, k and v of %lld equal heads each: "
                        "a multiple of %lld",
                        static_cast<long long>(dims[2]), static_cast<long long>(heads),
                        static_cast<long long>(3 * heads)));
  }
  return rt::sdk::packed_attention(dims[0], dims[1], heads, dims[2] / (3 * heads),
                                   op.integer(RT_ATTR_CAUSAL, 0) != 0);
}

// Part 0, 1 or 2 of qkv or its gradient: q, k or v.
template <typename T>
Heads<T> part_of(const DotProductAttention& s, T* qkv, int64_t part) {
  const int64_t features = s.heads * s.width;
  return {qkv + part * features, s.keys, 3 * features, s.width};
}
// An operand of its own.
template <typename T>
Heads<T> queries_of(const DotProductAttention& s, T* data, int64_t width) {
  return {data, s.queries, s.heads * width, width};
}
template <typename T>
Heads<T> keys_of(const DotProductAttention& s, T* data, int64_t width) {
  return {data, s.keys, s.key_heads * width, width};
}

uint64_t forward_workspace(const DotProductAttention& s) {
  return (s.keys + s.value_width) * sizeof(double);
}

}  // namespace

Kernel make_attention(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "qkv");
  expect_counts(op, 1, 1);
  const DotProductAttention s = packed_shape(op, 0);
  expect_output(op, 0, "y", dtype, s.y());
  return floating_kernel(
      dtype, {.workspace_bytes = forward_workspace(s), .saved_bytes = s.rows() * sizeof(double)},
      [s]<typename T>(const Buffers& b) {
        const T* const qkv = b.input<T>(0);
        forward<T>(Problem(s, b, 0), part_of(s, qkv, 0), part_of(s, qkv, 1), part_of(s, qkv, 2),
                   queries_of(s, b.output<T>(0), s.width), b);
      });
}

Kernel make_attention_backward(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "dy");
  expect_counts(op, 3, 1);
  const DotProductAttention s = packed_shape(op, 1);
  const Dims qkv = dims_of(op.input(1));
  expect_input(op, 0, "dy", dtype, s.y());
  expect_input(op, 1, "qkv", dtype, qkv);
  expect_input(op, 2, "y", dtype, s.y());
  expect_output(op, 0, "dqkv", dtype, qkv);
  return floating_kernel(
      dtype,
      {.workspace_bytes = gradient_sums(s) * sizeof(double),
       .reads_saved = s.rows() * sizeof(double)},
      [s]<typename T>(const Buffers& b) {
        const auto in = [&](int64_t part) { return part_of(s, b.input<T>(1), part); };
        const auto out = [&](int64_t part) { return part_of(s, b.output<T>(0), part); };
        backward<T>(Problem(s, b, 0),
                    {queries_of(s, b.input<T>(0), s.width), in(0), in(1), in(2),
                     queries_of(s, b.input<T>(2), s.width), out(0), out(1), out(2)},
                    b);
      });
}

Kernel make_dot_product_attention(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "q");
  const DotProductAttention s = rt::sdk::dot_product_attention_shape(op, dtype);
  return floating_kernel(
      dtype, {.workspace_bytes = forward_workspace(s), .saved_bytes = s.rows() * sizeof(double)},
      [s]<typename T>(const Buffers& b) {
        forward<T>(Problem(s, b, 3), queries_of(s, b.input<T>(0), s.width),
                   keys_of(s, b.input<T>(1), s.width), keys_of(s, b.input<T>(2), s.value_width),
                   queries_of(s, b.output<T>(0), s.value_width), b);
      });
}

Kernel make_dot_product_attention_backward(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "dy");
  const DotProductAttention s = rt::sdk::dot_product_attention_backward_shape(op, dtype);
  return floating_kernel(
      dtype,
      {.workspace_bytes = gradient_sums(s) * sizeof(double),
       .reads_saved = s.rows() * sizeof(double)},
      [s]<typename T>(const Buffers& b) {
        backward<T>(
            Problem(s, b, 5),
            {queries_of(s, b.input<T>(0), s.value_width), queries_of(s, b.input<T>(1), s.width),
             keys_of(s, b.input<T>(2), s.width), keys_of(s, b.input<T>(3), s.value_width),
             queries_of(s, b.input<T>(4), s.value_width), queries_of(s, b.output<T>(0), s.width),
             keys_of(s, b.output<T>(1), s.width), keys_of(s, b.output<T>(2), s.value_width)},
            b);
      });
}

}  // namespace backends::reference
