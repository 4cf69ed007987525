// Batch normalisation whose statistics are computed in parts: the statistics of the real rows of a
// batch, their merging, and their application. x is seen as [samples, positions, channels].
#include <algorithm>
#include <cmath>

#include "backends/reference/check.h"
#include "backends/reference/families.h"

namespace backends::reference {
namespace {

struct BatchShape {
  int64_t samples, positions, channels;
  Dims dims;
  double epsilon = 0;
};

BatchShape read_batch_shape(const Operation& op, uint32_t x) {
  const Dims dims = dims_of(input_of_min_rank(op, x, "x", 2));
  if (dims.back() < 1) op.fail("the last dimension of x is 0, expected at least 1");
  BatchShape s{dims.front(), 1, dims.back(), dims};
  for (size_t i = 1; i + 1 < dims.size(); ++i) s.positions *= dims[i];
  return s;
}

// The same for the operations that normalise.
BatchShape read_normal_shape(const Operation& op, uint32_t x) {
  BatchShape s = read_batch_shape(op, x);
  s.epsilon = op.number(RT_ATTR_EPSILON);
  if (!(s.epsilon >= 0)) op.fail(rt::sdk::format("epsilon is %g, expected >= 0", s.epsilon));
  return s;
}

// The mean and the sum of squared deviations of `channels` channels, over `count` elements of each.
struct Moments {
  double* mean;
  double* squares;
  double count = 0;
};

// Chan, Golub, LeVeque (1979). `part` has the form of a row of batch_norm_merge: means [C], squares
// [C], count.
template <typename T>
void merge(Moments& total, const T* part, int64_t channels) {
  const double n = static_cast<double>(part[2 * channels]);
  if (n == 0) return;
  const double share = n / (total.count + n);
  for (int64_t c = 0; c < channels; ++c) {
    const double delta = static_cast<double>(part[c]) - total.mean[c];
    total.mean[c] = total.count == 0 ? static_cast<double>(part[c]) : total.mean[c] + delta * share;
    total.squares[c] +=
        static_cast<double>(part[channels + c]) + delta * delta * total.count * share;
  }
  total.count += n;
}

// Calls body(sample, channel, index) for every element of x.
template <typename Body>
void each_element(const BatchShape& s, Body&& body) {
  int64_t e = 0;
  for (int64_t i = 0; i < s.samples; ++i) {
    for (int64_t p = 0; p < s.positions; ++p) {
      for (int64_t c = 0; c < s.channels; ++c) body(i, c, e++);
    }
  }
}

// The workspace holds mean [C] and squares [C].
template <typename T>
void statistics(const BatchShape& s, const Buffers& b) {
  const T* x = b.input<T>(0);
  const T* weight = b.input<T>(1);
  T* part = b.output<T>(0);
  double* mean = b.scratch<double>();
  double* squares = mean + s.channels;
  std::fill_n(mean, 2 * s.channels, 0.0);
  const auto real = [weight](int64_t i) { return weight[i] > 0; };
  double rows = 0;
  for (int64_t i = 0; i < s.samples; ++i) rows += real(i);
  const double n = rows * static_cast<double>(s.positions);
  each_element(s, [&](int64_t i, int64_t c, int64_t e) {
    if (real(i)) mean[c] += static_cast<double>(x[e]);
  });
  for (int64_t c = 0; c < s.channels; ++c) mean[c] /= std::max(n, 1.0);
  each_element(s, [&](int64_t i, int64_t c, int64_t e) {
    if (real(i)) squares[c] += (x[e] - mean[c]) * (x[e] - mean[c]);
  });
  for (int64_t c = 0; c < 2 * s.channels; ++c) part[c] = static_cast<T>(mean[c]);
  part[2 * s.channels] = static_cast<T>(n);
}

// running = (1 - momentum) running + momentum new. The new variance is the unbiased one.
template <typename T>
void update_running(const Moments& m, int64_t channels, double momentum, const Buffers& b) {
  const double unbias = m.count > 1 ? m.count / (m.count - 1) : 1.0;
  const double update = m.count > 0 ? momentum : 0.0, keep = 1.0 - update;
  for (int64_t c = 0; c < channels; ++c) {
    b.output<T>(1)[c] = static_cast<T>(keep * b.input<T>(1)[c] + update * m.mean[c]);
    b.output<T>(2)[c] = static_cast<T>(keep * b.input<T>(2)[c] + update * unbias * m.squares[c]);
  }
}

// The workspace holds mean [C] and squares [C].
template <typename T>
void merge_parts(int64_t parts, int64_t channels, double momentum, const Buffers& b) {
  Moments m{b.scratch<double>(), b.scratch<double>() + channels};
  std::fill_n(m.mean, 2 * channels, 0.0);
  const int64_t width = 2 * channels + 1;
  for (int64_t g = 0; g < parts; ++g) merge(m, b.input<T>(0) + g * width, channels);
  T* moments = b.output<T>(0);
  for (int64_t c = 0; c < channels; ++c) {
    m.squares[c] /= std::max(m.count, 1.0);
    moments[c] = static_cast<T>(m.mean[c]);
    moments[channels + c] = static_cast<T>(m.squares[c]);
  }
  moments[2 * channels] = static_cast<T>(m.count);
  update_running<T>(m, channels, momentum, b);
}

// The operand `moments`, with 1 / sqrt(var + epsilon) [C] computed into `inverse`.
template <typename T>
struct Normal {
  const T* mean;
  double n;
  double* inverse;

  Normal(const BatchShape& s, const T* moments, double* workspace)
      : mean(moments), n(static_cast<double>(moments[2 * s.channels])), inverse(workspace) {
    for (int64_t c = 0; c < s.channels; ++c) {
      const double variance = static_cast<double>(moments[s.channels + c]);
      inverse[c] = 1.0 / std::sqrt(variance + s.epsilon);
    }
  }
  double operator()(T x, int64_t c) const {
    return (static_cast<double>(x) - static_cast<double>(mean[c])) * inverse[c];
  }
};

// The workspace holds inverse [C].
template <typename T>
void apply(const BatchShape& s, const Buffers& b) {
  const T *x = b.input<T>(0), *gamma = b.input<T>(1), *beta = b.input<T>(2);
  T* y = b.output<T>(0);
  const Normal<T> xhat(s, b.input<T>(3), b.scratch<double>());
  each_element(s, [&](int64_t, int64_t c, int64_t e) {
    y[e] = static_cast<T>(gamma[c] * xhat(x[e], c) + beta[c]);
  });
}

// The workspace holds sum [C], dot [C] and inverse [C].
template <typename T>
void backward_statistics(const BatchShape& s, const Buffers& b) {
  const T *dy = b.input<T>(0), *x = b.input<T>(1);
  double* sum = b.scratch<double>();
  double* dot = sum + s.channels;
  const Normal<T> xhat(s, b.input<T>(2), dot + s.channels);
  std::fill_n(sum, 2 * s.channels, 0.0);
  each_element(s, [&](int64_t, int64_t c, int64_t e) {
    sum[c] += static_cast<double>(dy[e]);
    dot[c] += dy[e] * xhat(x[e], c);
  });
  for (int64_t c = 0; c < 2 * s.channels; ++c) b.output<T>(0)[c] = static_cast<T>(sum[c]);
}

// The workspace holds inverse [C].
template <typename T>
void backward_apply(const BatchShape& s, const Buffers& b) {
  const T *dy = b.input<T>(0), *x = b.input<T>(1), *gamma = b.input<T>(2);
  const T *sum = b.input<T>(4), *weight = b.input<T>(5);
  const T* dot = sum + s.channels;
  T* dx = b.output<T>(0);
  const Normal<T> xhat(s, b.input<T>(3), b.scratch<double>());
  const double n = xhat.n;
  each_element(s, [&](int64_t i, int64_t c, int64_t e) {
    const double centred = dy[e] - sum[c] / n - xhat(x[e], c) * dot[c] / n;
    const bool real = n > 0 && weight[i] > 0;
    dx[e] = static_cast<T>(real ? gamma[c] * xhat.inverse[c] * centred : 0.0);
  });
}

}  // namespace

Kernel make_batch_norm_statistics(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "x");
  expect_counts(op, 2, 1);
  const BatchShape s = read_batch_shape(op, 0);
  expect_input(op, 1, "weight", dtype, {s.samples});
  expect_output(op, 0, "part", dtype, {1, 2 * s.channels + 1});
  return floating_kernel(dtype, {.workspace_bytes = 2 * s.channels * sizeof(double)},
                         [s]<typename T>(const Buffers& b) { statistics<T>(s, b); });
}

Kernel make_batch_norm_merge(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "parts");
  expect_counts(op, 3, 3);
  const Dims parts = dims_of(input_of_rank(op, 0, "parts", 2));
  if (parts[1] < 3 || parts[1] % 2 == 0)
    op.fail("operand 0 (parts) has dims " + to_string(parts) + ", expected [G, 2C+1]");
  const int64_t channels = parts[1] / 2;
  expect_input(op, 1, "running_mean", dtype, {channels});
  expect_input(op, 2, "running_var", dtype, {channels});
  expect_output(op, 0, "moments", dtype, {parts[1]});
  expect_output(op, 1, "running_mean", dtype, {channels});
  expect_output(op, 2, "running_var", dtype, {channels});
  const double momentum = op.number(RT_ATTR_MOMENTUM, 0.1);
  const Kernel needs{.workspace_bytes = 2 * channels * sizeof(double),
                     .in_place = {0, 1u << 1, 1u << 2}};
  return floating_kernel(dtype, needs,
                         [groups = parts[0], channels, momentum]<typename T>(const Buffers& b) {
                           merge_parts<T>(groups, channels, momentum, b);
                         });
}

Kernel make_batch_norm_apply(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "x");
  expect_counts(op, 4, 1);
  const BatchShape s = read_normal_shape(op, 0);
  expect_input(op, 1, "gamma", dtype, {s.channels});
  expect_input(op, 2, "beta", dtype, {s.channels});
  expect_input(op, 3, "moments", dtype, {2 * s.channels + 1});
  expect_output(op, 0, "y", dtype, s.dims);
  return floating_kernel(dtype,
                         {.workspace_bytes = s.channels * sizeof(double), .in_place = {1u << 0}},
                         [s]<typename T>(const Buffers& b) { apply<T>(s, b); });
}

Kernel make_batch_norm_backward_statistics(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "dy");
  expect_counts(op, 3, 1);
  const BatchShape s = read_normal_shape(op, 1);
  expect_input(op, 0, "dy", dtype, s.dims);
  expect_input(op, 1, "x", dtype, s.dims);
  expect_input(op, 2, "moments", dtype, {2 * s.channels + 1});
  expect_output(op, 0, "sums", dtype, {1, 2 * s.channels});
  return floating_kernel(dtype, {.workspace_bytes = 3 * s.channels * sizeof(double)},
                         [s]<typename T>(const Buffers& b) { backward_statistics<T>(s, b); });
}

Kernel make_batch_norm_backward_apply(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "dy");
  expect_counts(op, 6, 1);
  const BatchShape s = read_normal_shape(op, 1);
  expect_input(op, 0, "dy", dtype, s.dims);
  expect_input(op, 1, "x", dtype, s.dims);
  expect_input(op, 2, "gamma", dtype, {s.channels});
  expect_input(op, 3, "moments", dtype, {2 * s.channels + 1});
  expect_input(op, 4, "sums", dtype, {2 * s.channels});
  expect_input(op, 5, "weight", dtype, {s.samples});
  expect_output(op, 0, "dx", dtype, s.dims);
  return floating_kernel(dtype,
                         {.workspace_bytes = s.channels * sizeof(double), .in_place = {0b11}},
                         [s]<typename T>(const Buffers& b) { backward_apply<T>(s, b); });
}

}  // namespace backends::reference
