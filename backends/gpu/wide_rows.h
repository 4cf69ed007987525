// Normalisation of rows of any length: a block of threads computes one row and reads it again for
// every step. row_norm.cu says how; its kernels hold shorter rows in registers.
#ifndef BACKENDS_GPU_WIDE_ROWS_H_
#define BACKENDS_GPU_WIDE_ROWS_H_

#include "backends/gpu/column_functions.h"
#include "backends/gpu/post_ops.h"

namespace backends::gpu {

// What is saved of a row: the mean is mean + rest; inverse is 1/sqrt(var + epsilon).
template <typename C>
struct RowNumbers {
  C mean, inverse, rest;
  GPU_DEVICE C normal(C x) const { return ((x - mean) - rest) * inverse; }
};
template <typename C>
struct RowStatistics {
  C *mean, *inverse, *rest;
  RowStatistics(void* saved, int64_t rows)
      : mean(static_cast<C*>(saved)), inverse(mean + rows), rest(inverse + rows) {}
  GPU_DEVICE RowNumbers<C> of(int64_t row) const { return {mean[row], inverse[row], rest[row]}; }
  GPU_DEVICE void store(int64_t row, C mean_of, C inverse_of, C rest_of) const {
    mean[row] = mean_of;
    inverse[row] = inverse_of;
    rest[row] = rest_of;
  }
};

// The sum of squared deviations from the mean, given the sum of deviations from an approximate
// mean, the sum of their squares, and `rest`, the mean deviation. NaN gives NaN.
template <typename C>
GPU_DEVICE C corrected(C sum, C squares, C rest) {
  const C result = squares - sum * rest;
  return result < C(0) ? C(0) : result;
}

template <typename T, bool kCentred>
struct WideRowNorm {
  using C = Compute<T>;
  const T* x;
  const C *gamma, *beta;
  T* y;
  RowStatistics<C> statistics;
  int64_t columns;
  C epsilon;
  GPU_DEVICE void operator()(int64_t row, C* scratch) const {
    const T* from = x + row * columns;
    const C n = static_cast<C>(columns);
    C mean = C(0), sum = C(0);
    if constexpr (kCentred)
      mean = block_sum(columns, scratch, [&](int64_t c) { return static_cast<C>(from[c]); }) / n;
    const auto deviation = [&](int64_t c) { return static_cast<C>(from[c]) - mean; };
    if constexpr (kCentred) sum = block_sum(columns, scratch, deviation);
    const C rest = sum / n;
    const C squares = block_sum(columns, scratch, [&](int64_t c) {
      const C d = deviation(c);
      return d * d;
    });
    const C inverse = C(1) / sqrt_of(corrected(sum, squares, rest) / n + epsilon);
    for (int64_t c = threadIdx.x; c < columns; c += kBlock) {
      const C shift = kCentred ? beta[c] : C(0);
      y[row * columns + c] = static_cast<T>(gamma[c] * ((deviation(c) - rest) * inverse) + shift);
    }
    if (threadIdx.x == 0) statistics.store(row, mean, inverse, rest);
  }
};

// dx, followed by the post-operations.
template <typename T, bool kCentred>
struct WideGradient {
  using C = Compute<T>;
  const T *dy, *x;
  const C* gamma;
  T* dx;
  RowStatistics<C> statistics;
  int64_t columns;
  PostOps post;
  GPU_DEVICE void operator()(int64_t row, C* scratch) const {
    const T *g = dy + row * columns, *from = x + row * columns;
    const RowNumbers<C> of = statistics.of(row);
    const C n = static_cast<C>(columns);
    const auto dxhat = [&](int64_t c) { return static_cast<C>(g[c]) * gamma[c]; };
    const auto xhat = [&](int64_t c) { return of.normal(static_cast<C>(from[c])); };
    const C sum = kCentred ? block_sum(columns, scratch, dxhat) / n : C(0);
    const C dot = block_sum(columns, scratch, [&](int64_t c) { return dxhat(c) * xhat(c); }) / n;
    for (int64_t c = threadIdx.x; c < columns; c += kBlock) {
      const C result = of.inverse * (dxhat(c) - sum - xhat(c) * dot);
      dx[row * columns + c] = static_cast<T>(post.template apply<T>(result, row * columns + c, c));
    }
  }
};

// The sums of dy and of dy xhat over the rows, for column_sums.
template <typename T>
struct WideGradientSums : Adds<T, 2> {
  using C = Compute<T>;
  const T *dy, *x;
  RowStatistics<C> statistics;
  int64_t columns;
  WideGradientSums(const T* gradient, const T* data, RowStatistics<C> of, int64_t width)
      : dy(gradient), x(data), statistics(of), columns(width) {}
  template <int V, int R, typename StateOf>
  GPU_DEVICE void add(int64_t row, int64_t step, int64_t column, StateOf& state) const {
    Pack<T, V> gradients[R], data[R];
    load_rows<V, R>(dy, columns, row, step, column, gradients);
    load_rows<V, R>(x, columns, row, step, column, data);
    for (int i = 0; i < R; ++i) {
      const RowNumbers<C> of = statistics.of(row + i * step);
      for (int v = 0; v < V; ++v) {
        const C g = static_cast<C>(gradients[i].value[v]);
        state.sums[v][0] += g;
        state.sums[v][1] += g * of.normal(static_cast<C>(data[i].value[v]));
      }
    }
  }
};
template <typename C>
struct StoreGammaBeta {
  C *dgamma, *dbeta;  // dbeta: null if there is none
  GPU_DEVICE void operator()(int64_t column, C (&totals)[2]) const {
    if (dbeta != nullptr) dbeta[column] = totals[0];
    dgamma[column] = totals[1];
  }
};

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_WIDE_ROWS_H_
