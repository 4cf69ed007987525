// What column_sums adds up: the protocol of its functions, and the frequent ones.
#ifndef BACKENDS_GPU_COLUMN_FUNCTIONS_H_
#define BACKENDS_GPU_COLUMN_FUNCTIONS_H_

#include "backends/gpu/columns.h"

namespace backends::gpu {

// The base of functions whose combination is addition. Those derived from it have
//   template <int V, int R> void add(int64_t row, int64_t step, int64_t column, State& state) const
// which adds the elements of V columns in the R rows row, row + step, ... to state.sums[column][k].
// A thread calls it for its rows in ascending order, R being kAhead or, for the last ones, 1.
template <typename T, int Width>
struct Adds {
  using Element = T;
  using C = Compute<T>;
  static constexpr int kAhead = 4;
  template <int V>
  struct State {
    C sums[V][Width];
  };
  GPU_DEVICE int64_t rows(int64_t given) const { return given; }
  template <int V>
  GPU_DEVICE State<V> start(int64_t) const {
    State<V> state;
    for (int v = 0; v < V; ++v) none(state.sums[v]);
    return state;
  }
  template <int V, typename StateOf>
  GPU_DEVICE void totals(const StateOf& state, C (&to)[V][Width]) const {
    for (int v = 0; v < V; ++v)
      for (int k = 0; k < Width; ++k) to[v][k] = state.sums[v][k];
  }
  GPU_DEVICE void none(C (&sums)[Width]) const {
    for (int k = 0; k < Width; ++k) sums[k] = C(0);
  }
  GPU_DEVICE void combine(C (&into)[Width], const C (&other)[Width]) const {
    for (int k = 0; k < Width; ++k) into[k] += other[k];
  }
};

// The vectors of R rows, from column `column` of row `row` on. They are loaded before the first of
// them is used, so that these loads are under way together.
template <int V, int R, typename T>
GPU_DEVICE void load_rows(const T* x, int64_t columns, int64_t row, int64_t step, int64_t column,
                          Pack<T, V> (&to)[R]) {
  const T* from = x + row * columns + column;
  for (int i = 0; i < R; ++i) to[i] = load<V>(from + i * step * columns);
}

// V neighbouring values of a vector of the columns.
template <int V, typename C>
GPU_DEVICE void load_columns(const C* from, int64_t column, C (&to)[V]) {
  const Pack<C, V> pack = load<V>(from + column);
  for (int v = 0; v < V; ++v) to[v] = pack.value[v];
}

// Sums the elements of a column.
template <typename T>
struct ColumnOf : Adds<T, 1> {
  const T* x;
  int64_t columns;
  ColumnOf(const T* data, int64_t width) : x(data), columns(width) {}
  template <int V, int R, typename StateOf>
  GPU_DEVICE void add(int64_t row, int64_t step, int64_t column, StateOf& state) const {
    Pack<T, V> loaded[R];
    load_rows<V, R>(x, columns, row, step, column, loaded);
    for (int i = 0; i < R; ++i)
      for (int v = 0; v < V; ++v) state.sums[v][0] += static_cast<Compute<T>>(loaded[i].value[v]);
  }
};

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_COLUMN_FUNCTIONS_H_
