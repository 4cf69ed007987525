// What batch_norm and its relatives compute for each element from the statistics of its column.
#ifndef BACKENDS_GPU_NORMALISED_COLUMNS_H_
#define BACKENDS_GPU_NORMALISED_COLUMNS_H_

#include "backends/gpu/column_functions.h"
#include "backends/gpu/column_map.h"

namespace backends::gpu {

// Where the statistics of the columns lie. The mean is mean + rest; 1/sqrt(var + epsilon) is
// `inverse` or, if that is null, is computed from `variance`.
template <typename C>
struct ColumnStatistics {
  const C *mean, *rest;  // rest null: 0
  const C *inverse, *variance;
  C epsilon;

  template <int V>
  struct Of {
    C mean[V], rest[V], inverse[V];
    // The difference first, which is exact where x lies close to the mean.
    GPU_DEVICE C centred(C x, int v) const { return (x - mean[v]) - rest[v]; }
  };
  template <int V>
  GPU_DEVICE Of<V> of(int64_t column) const {
    Of<V> s;
    load_columns<V>(mean, column, s.mean);
    for (int v = 0; v < V; ++v) s.rest[v] = C(0);
    if (rest) load_columns<V>(rest, column, s.rest);
    load_columns<V>(inverse ? inverse : variance, column, s.inverse);
    for (int v = 0; v < V && !inverse; ++v) s.inverse[v] = C(1) / sqrt_of(s.inverse[v] + epsilon);
    return s;
  }
};

// y = gamma (x - mean) / sqrt(var + epsilon) + beta, followed by the post-operations `Posts`
// (residual_relu.h).
template <typename T, typename Posts>
struct Normalise {
  using Element = T;
  using C = Compute<T>;
  const T* x;
  const C *gamma, *beta;
  ColumnStatistics<C> statistics;
  T* y;
  int64_t columns;
  Posts posts;

  template <int V>
  struct Numbers {
    typename ColumnStatistics<C>::template Of<V> of;
    C scale[V], beta[V];
  };
  template <int V>
  GPU_DEVICE Numbers<V> begin(int64_t column) const {
    Numbers<V> n;
    n.of = statistics.template of<V>(column);
    load_columns<V>(gamma, column, n.scale);
    load_columns<V>(beta, column, n.beta);
    for (int v = 0; v < V; ++v) n.scale[v] *= n.of.inverse[v];
    return n;
  }
  template <int V, int R>
  GPU_DEVICE void map(int64_t row, int64_t step, int64_t column, const Numbers<V>& n) const {
    Pack<T, V> from[R];
    typename Posts::template Loaded<V> loaded[R];
    load_rows<V, R>(x, columns, row, step, column, from);
    for (int i = 0; i < R; ++i)
      posts.template load<V>((row + i * step) * columns + column, loaded[i]);
    for (int i = 0; i < R; ++i) {
      C to[V];
      for (int v = 0; v < V; ++v)
        to[v] = n.scale[v] * n.of.centred(static_cast<C>(from[i].value[v]), v) + n.beta[v];
      const int64_t index = (row + i * step) * columns + column;
      posts.template apply<V>(index, column, loaded[i], to);
      store<V>(y + index, narrow<T, V>(to));
    }
  }
};

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_NORMALISED_COLUMNS_H_
