// The gradients of batch_norm and its relatives: the sums of the columns, and dx.
#ifndef BACKENDS_GPU_COLUMN_GRADIENT_H_
#define BACKENDS_GPU_COLUMN_GRADIENT_H_

#include "backends/gpu/divisor.h"
#include "backends/gpu/normalised_columns.h"

namespace backends::gpu {

// The sums of dy and of dy xhat, for column_sums.
template <typename T>
struct GradientSums : Adds<T, 2> {
  using C = Compute<T>;
  using Statistics = ColumnStatistics<C>;
  const T *dy, *x;
  Statistics statistics;
  int64_t columns;
  GradientSums(const T* gradient, const T* data, Statistics of, int64_t width)
      : dy(gradient), x(data), statistics(of), columns(width) {}

  template <int V>
  struct State {
    C sums[V][2];
    typename Statistics::template Of<V> of;
  };
  template <int V>
  GPU_DEVICE State<V> start(int64_t column) const {
    State<V> state;
    state.of = statistics.template of<V>(column);
    for (int v = 0; v < V; ++v) this->none(state.sums[v]);
    return state;
  }
  template <int V, int R>
  GPU_DEVICE void add(int64_t row, int64_t step, int64_t column, State<V>& state) const {
    Pack<T, V> gradients[R], data[R];
    load_rows<V, R>(dy, columns, row, step, column, gradients);
    load_rows<V, R>(x, columns, row, step, column, data);
    for (int i = 0; i < R; ++i) {
      for (int v = 0; v < V; ++v) {
        const C g = static_cast<C>(gradients[i].value[v]);
        const C xhat = state.of.centred(static_cast<C>(data[i].value[v]), v) * state.of.inverse[v];
        state.sums[v][0] += g;
        state.sums[v][1] += g * xhat;
      }
    }
  }
};
template <typename C>
struct StoreSums {
  C *sum, *dot;
  GPU_DEVICE void operator()(int64_t column, C (&totals)[2]) const {
    sum[column] = totals[0];
    dot[column] = totals[1];
  }
};

// dx = gamma / sqrt(var + epsilon) (dy - sum/n - xhat dot/n). `weight` [samples] is 0 for padding
// samples, whose dx is 0; each sample has `positions` rows. If it is null, no sample is padding.
// The number of rows without padding is `*n` (device memory) or, if `n` is null, `rows`.
template <typename T>
struct ColumnGradient {
  using Element = T;
  using C = Compute<T>;
  const T *dy, *x;
  const C *gamma, *sum, *dot, *weight, *n;
  ColumnStatistics<C> statistics;
  T* dx;
  int64_t columns;
  Divisor positions;
  C rows;

  template <int V>
  struct Numbers {
    typename ColumnStatistics<C>::template Of<V> of;
    C scale[V], sum[V], dot[V];  // dot: times 1/sqrt(var + epsilon)
    bool any;                    // is there a row without padding?
  };
  template <int V>
  GPU_DEVICE Numbers<V> begin(int64_t column) const {
    Numbers<V> numbers;
    const C count = n ? *n : rows;
    numbers.any = count > C(0);
    numbers.of = statistics.template of<V>(column);
    load_columns<V>(gamma, column, numbers.scale);
    load_columns<V>(sum, column, numbers.sum);
    load_columns<V>(dot, column, numbers.dot);
    for (int v = 0; v < V; ++v) {
      numbers.scale[v] *= numbers.of.inverse[v];
      numbers.sum[v] /= count;
      numbers.dot[v] = numbers.dot[v] / count * numbers.of.inverse[v];
    }
    return numbers;
  }
  template <int V, int R>
  GPU_DEVICE void map(int64_t row, int64_t step, int64_t column, const Numbers<V>& numbers) const {
    Pack<T, V> gradients[R], data[R];
    load_rows<V, R>(dy, columns, row, step, column, gradients);
    load_rows<V, R>(x, columns, row, step, column, data);
    for (int i = 0; i < R; ++i) {
      const int64_t at = row + i * step;
      const bool real = numbers.any && (!weight || weight[positions.quotient(at)] > C(0));
      C to[V];
      for (int v = 0; v < V; ++v) {
        const C g = static_cast<C>(gradients[i].value[v]) - numbers.sum[v];
        const C centred = numbers.of.centred(static_cast<C>(data[i].value[v]), v);
        to[v] = real ? numbers.scale[v] * (g - centred * numbers.dot[v]) : C(0);
      }
      store<V>(dx + at * columns + column, narrow<T, V>(to));
    }
  }
};

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_COLUMN_GRADIENT_H_
