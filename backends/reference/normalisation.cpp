// batch_norm (over all dimensions but the last), layer_norm and rms_norm (over the last dimension),
// and their gradients. They see x as [rows, columns], where columns is the last dimension. They
// save the mean and 1/sqrt(var + epsilon) as two arrays of double, with one entry per column
// (batch_norm) or row (layer_norm); rms_norm saves 1/sqrt(mean(x^2) + epsilon) of each row.
//
// With xhat = (x - mean) inverse, and means taken over the n elements that are normalised together:
//   dx = inverse (dxhat - mean(dxhat) - xhat mean(dxhat xhat)),  dxhat = dy gamma;
// rms_norm has no mean(dxhat).
#include <algorithm>
#include <cmath>

#include "backends/reference/check.h"
#include "backends/reference/families.h"

namespace backends::reference {
namespace {

struct NormShape {
  int64_t rows, columns;
  double epsilon, momentum;
};

NormShape read_norm_shape(const Operation& op, uint32_t x) {
  const Dims dims = dims_of(input_of_min_rank(op, x, "x", 1));
  const int64_t columns = dims.back();
  if (columns < 1) op.fail("the last dimension of x is 0, expected at least 1");
  NormShape s{product(dims) / columns, columns, op.number(RT_ATTR_EPSILON), 0};
  if (!(s.epsilon >= 0)) op.fail(rt::sdk::format("epsilon is %g, expected >= 0", s.epsilon));
  return s;
}

void expect_samples(const Operation& op, const NormShape& s) {
  if (s.rows == 0) op.fail("x has no sample; the mean of an empty batch does not exist");
}

void expect_vectors(const Operation& op, rt_dtype dtype, const NormShape& s, uint32_t first,
                    std::initializer_list<const char*> names) {
  for (const char* name : names) expect_input(op, first++, name, dtype, {s.columns});
}

// Computes mean [C] and (biased) variance [C] of the columns.
template <typename T>
void column_statistics(const NormShape& s, const T* x, double* mean, double* variance) {
  std::fill_n(mean, s.columns, 0.0);
  std::fill_n(variance, s.columns, 0.0);
  const double n = static_cast<double>(s.rows);
  for (int64_t i = 0; i < s.rows; ++i) {
    for (int64_t c = 0; c < s.columns; ++c) mean[c] += static_cast<double>(x[i * s.columns + c]);
  }
  for (int64_t c = 0; c < s.columns; ++c) mean[c] /= n;
  for (int64_t i = 0; i < s.rows; ++i) {
    for (int64_t c = 0; c < s.columns; ++c) {
      const double d = static_cast<double>(x[i * s.columns + c]) - mean[c];
      variance[c] += d * d;
    }
  }
  for (int64_t c = 0; c < s.columns; ++c) variance[c] /= n;
}

// running = (1 - momentum) running + momentum new. The new variance is the unbiased one.
template <typename T>
void update_running(const NormShape& s, const double* mean, const double* variance,
                    const Buffers& b) {
  const double n = static_cast<double>(s.rows);
  const double unbias = s.rows > 1 ? n / (n - 1.0) : 1.0;
  const double keep = 1.0 - s.momentum;
  for (int64_t c = 0; c < s.columns; ++c) {
    b.output<T>(1)[c] = static_cast<T>(keep * b.input<T>(3)[c] + s.momentum * mean[c]);
    b.output<T>(2)[c] = static_cast<T>(keep * b.input<T>(4)[c] + s.momentum * unbias * variance[c]);
  }
}

template <typename T>
void normalise_columns(const NormShape& s, const Buffers& b, const double* mean,
                       const double* inverse) {
  const T* x = b.input<T>(0);
  const T* gamma = b.input<T>(1);
  const T* beta = b.input<T>(2);
  T* y = b.output<T>(0);
  for (int64_t i = 0; i < s.rows; ++i) {
    for (int64_t c = 0; c < s.columns; ++c) {
      const int64_t e = i * s.columns + c;
      y[e] = static_cast<T>(gamma[c] * ((x[e] - mean[c]) * inverse[c]) + beta[c]);
    }
  }
}

template <typename T>
void batch_norm(const NormShape& s, const Buffers& b) {
  double* mean = static_cast<double*>(b.saved);
  double* inverse = mean + s.columns;
  column_statistics(s, b.input<T>(0), mean, inverse);
  update_running<T>(s, mean, inverse, b);
  for (int64_t c = 0; c < s.columns; ++c) inverse[c] = 1.0 / std::sqrt(inverse[c] + s.epsilon);
  normalise_columns<T>(s, b, mean, inverse);
}

template <typename T>
void batch_norm_inference(const NormShape& s, const Buffers& b) {
  double* mean = b.scratch<double>();
  double* inverse = mean + s.columns;
  for (int64_t c = 0; c < s.columns; ++c) {
    mean[c] = b.input<T>(3)[c];
    inverse[c] = 1.0 / std::sqrt(b.input<T>(4)[c] + s.epsilon);
  }
  normalise_columns<T>(s, b, mean, inverse);
}

// The workspace holds the sum of dy [C] and the sum of dy xhat [C].
template <typename T>
void batch_norm_backward(const NormShape& s, const Buffers& b) {
  const T* dy = b.input<T>(0);
  const T* x = b.input<T>(1);
  const T* gamma = b.input<T>(2);
  const double* mean = static_cast<const double*>(b.saved);
  const double* inverse = mean + s.columns;
  double* sum = b.scratch<double>();
  double* dot = sum + s.columns;
  std::fill_n(sum, 2 * s.columns, 0.0);
  for (int64_t i = 0; i < s.rows; ++i) {
    for (int64_t c = 0; c < s.columns; ++c) {
      const int64_t e = i * s.columns + c;
      sum[c] += static_cast<double>(dy[e]);
      dot[c] += dy[e] * ((x[e] - mean[c]) * inverse[c]);
    }
  }
  const double n = static_cast<double>(s.rows);
  for (int64_t i = 0; i < s.rows; ++i) {
    for (int64_t c = 0; c < s.columns; ++c) {
      const int64_t e = i * s.columns + c;
      const double xhat = (x[e] - mean[c]) * inverse[c];
      b.output<T>(0)[e] =
          static_cast<T>(gamma[c] * inverse[c] * (dy[e] - sum[c] / n - xhat * dot[c] / n));
    }
  }
  for (int64_t c = 0; c < s.columns; ++c) {
    b.output<T>(1)[c] = static_cast<T>(dot[c]);
    b.output<T>(2)[c] = static_cast<T>(sum[c]);
  }
}

template <typename T>
void layer_norm(const NormShape& s, const Buffers& b) {
  const T* gamma = b.input<T>(1);
  const T* beta = b.input<T>(2);
  double* means = static_cast<double*>(b.saved);
  double* inverses = means + s.rows;
  const double n = static_cast<double>(s.columns);
  for (int64_t i = 0; i < s.rows; ++i) {
    const T* x = b.input<T>(0) + i * s.columns;
    T* y = b.output<T>(0) + i * s.columns;
    double mean = 0, variance = 0;
    for (int64_t c = 0; c < s.columns; ++c) mean += static_cast<double>(x[c]);
    mean /= n;
    for (int64_t c = 0; c < s.columns; ++c) variance += (x[c] - mean) * (x[c] - mean);
    const double inverse = 1.0 / std::sqrt(variance / n + s.epsilon);
    for (int64_t c = 0; c < s.columns; ++c) {
      y[c] = static_cast<T>(gamma[c] * ((x[c] - mean) * inverse) + beta[c]);
    }
    means[i] = mean;
    inverses[i] = inverse;
  }
}

// The workspace holds dgamma [D] and dbeta [D].
template <typename T>
void layer_norm_backward(const NormShape& s, const Buffers& b) {
  const T* gamma = b.input<T>(2);
  const double* means = static_cast<const double*>(b.saved);
  const double* inverses = means + s.rows;
  double* dgamma = b.scratch<double>();
  double* dbeta = dgamma + s.columns;
  std::fill_n(dgamma, 2 * s.columns, 0.0);
  const double n = static_cast<double>(s.columns);
  for (int64_t i = 0; i < s.rows; ++i) {
    const T* dy = b.input<T>(0) + i * s.columns;
    const T* x = b.input<T>(1) + i * s.columns;
    T* dx = b.output<T>(0) + i * s.columns;
    double sum = 0, dot = 0;
    for (int64_t c = 0; c < s.columns; ++c) {
      const double xhat = (x[c] - means[i]) * inverses[i];
      sum += static_cast<double>(dy[c]) * gamma[c];
      dot += static_cast<double>(dy[c]) * gamma[c] * xhat;
      dgamma[c] += dy[c] * xhat;
      dbeta[c] += static_cast<double>(dy[c]);
    }
    for (int64_t c = 0; c < s.columns; ++c) {
      const double xhat = (x[c] - means[i]) * inverses[i];
      const double dxhat = static_cast<double>(dy[c]) * gamma[c];
      dx[c] = static_cast<T>(inverses[i] * (dxhat - sum / n - xhat * dot / n));
    }
  }
  for (int64_t c = 0; c < s.columns; ++c) {
    b.output<T>(1)[c] = static_cast<T>(dgamma[c]);
    b.output<T>(2)[c] = static_cast<T>(dbeta[c]);
  }
}

template <typename T>
void rms_norm(const NormShape& s, const Buffers& b) {
  const T* gamma = b.input<T>(1);
  double* inverses = static_cast<double*>(b.saved);
  for (int64_t i = 0; i < s.rows; ++i) {
    const T* x = b.input<T>(0) + i * s.columns;
    T* y = b.output<T>(0) + i * s.columns;
    double squares = 0;
    for (int64_t c = 0; c < s.columns; ++c) squares += static_cast<double>(x[c]) * x[c];
    inverses[i] = 1.0 / std::sqrt(squares / static_cast<double>(s.columns) + s.epsilon);
    for (int64_t c = 0; c < s.columns; ++c) y[c] = static_cast<T>(gamma[c] * (x[c] * inverses[i]));
  }
}

// The workspace holds dgamma [D].
template <typename T>
void rms_norm_backward(const NormShape& s, const Buffers& b) {
  const T* gamma = b.input<T>(2);
  const double* inverses = static_cast<const double*>(b.saved);
  double* dgamma = b.scratch<double>();
  std::fill_n(dgamma, s.columns, 0.0);
  for (int64_t i = 0; i < s.rows; ++i) {
    const T* dy = b.input<T>(0) + i * s.columns;
    const T* x = b.input<T>(1) + i * s.columns;
    T* dx = b.output<T>(0) + i * s.columns;
    double dot = 0;
    for (int64_t c = 0; c < s.columns; ++c) {
      const double xhat = x[c] * inverses[i];
      dot += static_cast<double>(dy[c]) * gamma[c] * xhat;
      dgamma[c] += dy[c] * xhat;
    }
    dot /= static_cast<double>(s.columns);
    for (int64_t c = 0; c < s.columns; ++c) {
      const double dxhat = static_cast<double>(dy[c]) * gamma[c];
      dx[c] = static_cast<T>(inverses[i] * (dxhat - x[c] * inverses[i] * dot));
    }
  }
  for (int64_t c = 0; c < s.columns; ++c) b.output<T>(1)[c] = static_cast<T>(dgamma[c]);
}

// Checks the operands dy, x, gamma -> dx, dgamma, and dbeta if the operation has it.
NormShape backward_shape(const Operation& op, rt_dtype dtype, bool has_beta = true) {
  expect_counts(op, 3, has_beta ? 3 : 2);
  const NormShape s = read_norm_shape(op, 1);
  const Dims dims = dims_of(op.input(1));
  expect_input(op, 0, "dy", dtype, dims);
  expect_input(op, 1, "x", dtype, dims);
  expect_input(op, 2, "gamma", dtype, {s.columns});
  expect_output(op, 0, "dx", dtype, dims);
  expect_output(op, 1, "dgamma", dtype, {s.columns});
  if (has_beta) expect_output(op, 2, "dbeta", dtype, {s.columns});
  return s;
}

}  // namespace

Kernel make_batch_norm(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "x");
  expect_counts(op, 5, 3);
  NormShape s = read_norm_shape(op, 0);
  s.momentum = op.number(RT_ATTR_MOMENTUM, 0.1);
  expect_samples(op, s);
  expect_vectors(op, dtype, s, 1, {"gamma", "beta", "running_mean", "running_var"});
  expect_output(op, 0, "y", dtype, dims_of(op.input(0)));
  expect_output(op, 1, "running_mean", dtype, {s.columns});
  expect_output(op, 2, "running_var", dtype, {s.columns});
  return floating_kernel(
      dtype, {.saved_bytes = 2 * s.columns * sizeof(double), .in_place = {0, 1u << 3, 1u << 4}},
      [s]<typename T>(const Buffers& b) { batch_norm<T>(s, b); });
}

Kernel make_batch_norm_inference(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "x");
  expect_counts(op, 5, 1);
  const NormShape s = read_norm_shape(op, 0);
  expect_vectors(op, dtype, s, 1, {"gamma", "beta", "running_mean", "running_var"});
  expect_output(op, 0, "y", dtype, dims_of(op.input(0)));
  return floating_kernel(dtype,
                         {.workspace_bytes = 2 * s.columns * sizeof(double), .in_place = {1u << 0}},
                         [s]<typename T>(const Buffers& b) { batch_norm_inference<T>(s, b); });
}

Kernel make_batch_norm_backward(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "dy");
  const NormShape s = backward_shape(op, dtype);
  expect_samples(op, s);
  return floating_kernel(dtype,
                         {.workspace_bytes = 2 * s.columns * sizeof(double),
                          .reads_saved = 2 * s.columns * sizeof(double)},
                         [s]<typename T>(const Buffers& b) { batch_norm_backward<T>(s, b); });
}

Kernel make_layer_norm(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "x");
  expect_counts(op, 3, 1);
  const NormShape s = read_norm_shape(op, 0);
  expect_vectors(op, dtype, s, 1, {"gamma", "beta"});
  expect_output(op, 0, "y", dtype, dims_of(op.input(0)));
  return floating_kernel(dtype, {.saved_bytes = 2 * s.rows * sizeof(double)},
                         [s]<typename T>(const Buffers& b) { layer_norm<T>(s, b); });
}

Kernel make_layer_norm_backward(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "dy");
  const NormShape s = backward_shape(op, dtype);
  return floating_kernel(dtype,
                         {.workspace_bytes = 2 * s.columns * sizeof(double),
                          .reads_saved = 2 * s.rows * sizeof(double)},
                         [s]<typename T>(const Buffers& b) { layer_norm_backward<T>(s, b); });
}

Kernel make_rms_norm(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "x");
  expect_counts(op, 2, 1);
  const NormShape s = read_norm_shape(op, 0);
  expect_vectors(op, dtype, s, 1, {"gamma"});
  expect_output(op, 0, "y", dtype, dims_of(op.input(0)));
  return floating_kernel(dtype, {.saved_bytes = s.rows * sizeof(double)},
                         [s]<typename T>(const Buffers& b) { rms_norm<T>(s, b); });
}

Kernel make_rms_norm_backward(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "dy");
  const NormShape s = backward_shape(op, dtype, false);
  return floating_kernel(
      dtype,
      {.workspace_bytes = s.columns * sizeof(double), .reads_saved = s.rows * sizeof(double)},
      [s]<typename T>(const Buffers& b) { rms_norm_backward<T>(s, b); });
}

}  // namespace backends::reference
