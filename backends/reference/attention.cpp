// attention and its gradient. The forward saves log(sum of exp(scores)) of every row, as double [N,
// heads, T].
#include <algorithm>
#include <cmath>

#include "backends/reference/check.h"
#include "backends/reference/families.h"
#include "backends/reference/row.h"

namespace backends::reference {
namespace {

struct AttentionShape {
  int64_t samples, length, heads, width;  // width: columns of one head
  bool causal;
  double scale;

  int64_t features() const { return heads * width; }
  int64_t rows() const { return samples * heads * length; }
  // The number of keys that row i sees.
  int64_t keys(int64_t i) const { return causal ? i + 1 : length; }
};

AttentionShape read_attention_shape(const Operation& op, uint32_t qkv) {
  const Dims dims = dims_of(input_of_rank(op, qkv, "qkv", 3));
  const int64_t heads = integer_at_least(op, RT_ATTR_HEADS, 0, 1);
  if (dims[2] < 1 || dims[2] % (3 * heads) != 0) {
    op.fail(
        rt::sdk::format("qkv has %lld features, expected q, k and v of %lld equal heads each: "
                        "a multiple of %lld",
                        static_cast<long long>(dims[2]), static_cast<long long>(heads),
                        static_cast<long long>(3 * heads)));
  }
  const int64_t width = dims[2] / (3 * heads);
  return {dims[0],
          dims[1],
          heads,
          width,
          op.integer(RT_ATTR_CAUSAL, 0) != 0,
          1.0 / std::sqrt(static_cast<double>(width))};
}

// The rows of one head of one sample. T may be const.
template <typename T>
struct Rows {
  T* data;
  int64_t step;
  T* operator[](int64_t i) const { return data + i * step; }
};

// The rows of one operand inside qkv; `part` is 0 for q, 1 for k and 2 for v.
template <typename T>
Rows<T> part_of(const AttentionShape& s, T* qkv, int64_t sample, int64_t head, int64_t part) {
  const int64_t step = 3 * s.features();
  return {qkv + sample * s.length * step + part * s.features() + head * s.width, step};
}
template <typename T>
Rows<T> rows_of(const AttentionShape& s, T* y, int64_t sample, int64_t head) {
  return {y + sample * s.length * s.features() + head * s.width, s.features()};
}

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

// Calls body(sample, head, number of the head's first row among all rows).
template <typename Body>
void each_head(const AttentionShape& s, Body&& body) {
  for (int64_t n = 0; n < s.samples; ++n) {
    for (int64_t h = 0; h < s.heads; ++h) body(n, h, (n * s.heads + h) * s.length);
  }
}

// The workspace holds scores [T] and y_i [D].
template <typename T>
void attention(const AttentionShape& s, const Buffers& b) {
  double* scores = b.scratch<double>();
  double* sums = scores + s.length;
  each_head(s, [&](int64_t n, int64_t h, int64_t first) {
    const auto q = part_of(s, b.input<T>(0), n, h, 0), k = part_of(s, b.input<T>(0), n, h, 1);
    const auto v = part_of(s, b.input<T>(0), n, h, 2);
    const auto y = rows_of(s, b.output<T>(0), n, h);
    for (int64_t i = 0; i < s.length; ++i) {
      for (int64_t j = 0; j < s.keys(i); ++j) scores[j] = s.scale * dot(q[i], k[j], s.width);
      const RowSum row = sum_row(scores, s.keys(i));
      std::fill_n(sums, s.width, 0.0);
      for (int64_t j = 0; j < s.keys(i); ++j) {
        add_scaled(sums, std::exp(row.log_probability(scores[j])), v[j], s.width);
      }
      for (int64_t d = 0; d < s.width; ++d) y[i][d] = static_cast<T>(sums[d]);
      static_cast<double*>(b.saved)[first + i] = row.largest + row.log_sum;
    }
  });
}

// The workspace holds dq, dk and dv of one head, [T][D] each.
template <typename T>
void attention_backward(const AttentionShape& s, const Buffers& b) {
  const int64_t size = s.length * s.width;
  double* sums = b.scratch<double>();
  each_head(s, [&](int64_t n, int64_t h, int64_t first) {
    const auto dy = rows_of(s, b.input<T>(0), n, h), y = rows_of(s, b.input<T>(2), n, h);
    const auto q = part_of(s, b.input<T>(1), n, h, 0), k = part_of(s, b.input<T>(1), n, h, 1);
    const auto v = part_of(s, b.input<T>(1), n, h, 2);
    const Rows<double> dq{sums, s.width}, dk{sums + size, s.width}, dv{sums + 2 * size, s.width};
    std::fill_n(sums, 3 * size, 0.0);
    for (int64_t i = 0; i < s.length; ++i) {
      const double log_sum = static_cast<const double*>(b.saved)[first + i];
      const double both = dot(dy[i], y[i], s.width);
      for (int64_t j = 0; j < s.keys(i); ++j) {
        const double p = std::exp(s.scale * dot(q[i], k[j], s.width) - log_sum);
        const double ds = s.scale * p * (dot(dy[i], v[j], s.width) - both);
        add_scaled(dq[i], ds, k[j], s.width);
        add_scaled(dk[j], ds, q[i], s.width);
        add_scaled(dv[j], p, dy[i], s.width);
      }
    }
    for (int64_t part = 0; part < 3; ++part) {
      const auto out = part_of(s, b.output<T>(0), n, h, part);
      const double* from = sums + part * size;
      for (int64_t e = 0; e < size; ++e) out[e / s.width][e % s.width] = static_cast<T>(from[e]);
    }
  });
}

}  // namespace

Kernel make_attention(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "qkv");
  expect_counts(op, 1, 1);
  const AttentionShape s = read_attention_shape(op, 0);
  expect_output(op, 0, "y", dtype, {s.samples, s.length, s.features()});
  return floating_kernel(dtype,
                         {.workspace_bytes = (s.length + s.width) * sizeof(double),
                          .saved_bytes = s.rows() * sizeof(double)},
                         [s]<typename T>(const Buffers& b) { attention<T>(s, b); });
}

Kernel make_attention_backward(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "dy");
  expect_counts(op, 3, 1);
  const AttentionShape s = read_attention_shape(op, 1);
  const Dims y = {s.samples, s.length, s.features()}, qkv = dims_of(op.input(1));
  expect_input(op, 0, "dy", dtype, y);
  expect_input(op, 1, "qkv", dtype, qkv);
  expect_input(op, 2, "y", dtype, y);
  expect_output(op, 0, "dqkv", dtype, qkv);
  return floating_kernel(dtype,
                         {.workspace_bytes = 3 * s.length * s.width * sizeof(double),
                          .reads_saved = s.rows() * sizeof(double)},
                         [s]<typename T>(const Buffers& b) { attention_backward<T>(s, b); });
}

}  // namespace backends::reference
