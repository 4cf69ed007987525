// Mean and sum of squared deviations of the columns, in one pass over x.
//
// Each thread takes batches of eight rows. Within a batch, which is in registers, it subtracts the
// first element, computes the mean of these differences and then the squares of the deviations from
// it. Batches are merged by the formula of Chan, Golub and LeVeque ("Updating formulae and a
// pairwise algorithm for computing sample variances", 1979), with the mean kept as the sum of two
// numbers.
//
// Error bounds, u being the unit roundoff of C and M the sum of squared deviations of all rows:
// - Differences of elements that lie within a factor of two of each other are exact (Sterbenz). All
//   others are wrong by at most u times themselves, which is no more than rounding x would do. The
//   same holds for differences of means. So no rounding error is larger than about u times the
//   distance between elements of the column, however far from zero the column lies.
// - Within a batch M is wrong by at most about 25 u relatively: the square of the largest distance
// D
//   to the first element is at most 2 M of the batch, the differences are wrong by at most 2 u D,
//   and the error of their mean enters in second order only.
// - M is a sum of squares, of which none is negative: every merge adds a relative error of at most
//   6 u. The number of merges is an eighth of the rows of a thread plus, in the sums of the chunks,
//   at most 32 in a line and the logarithms of the numbers of lines.
#ifndef BACKENDS_GPU_MOMENTS_H_
#define BACKENDS_GPU_MOMENTS_H_

#include "backends/gpu/column_functions.h"

namespace backends::gpu {

// a + b = sum + rest exactly (Knuth, "The Art of Computer Programming", volume 2, 4.2.2, theorem
// B).
template <typename C>
GPU_DEVICE void add_exactly(C a, C b, C& sum, C& rest) {
  sum = a + b;
  const C part = sum - a;
  rest = (a - (sum - part)) + (b - part);
}

// The mean (mean + rest) of some numbers and the sum of their squared deviations from it.
template <typename C>
struct Moment {
  C mean, rest, squares;
  // Adds those of other numbers, of which there are `share` of all; `product` is their number times
  // 1 - share.
  GPU_DEVICE void merge(const Moment& other, C share, C product) {
    const C delta = (other.mean - mean) + (other.rest - rest);
    squares += other.squares + delta * delta * product;
    add_exactly(mean, rest + delta * share, mean, rest);
  }
};

// Those of the R rows of a batch.
template <int R, typename C>
GPU_DEVICE Moment<C> moment_of(const C (&x)[R]) {
  C from_first[R], sum = C(0), squares = C(0);
  for (int i = 0; i < R; ++i) {
    from_first[i] = x[i] - x[0];  // NaN, like all that follows from it, if x[0] is not finite
    sum += from_first[i];
  }
  const C mean = sum * C(1.0 / R);
  for (int i = 0; i < R; ++i) squares += (from_first[i] - mean) * (from_first[i] - mean);
  return {x[0], mean, squares};
}

// A function for column_sums. `Rows` says which rows there are: count(rows) of them, and row i is
// row at(i) of x. Its totals are the number of rows, the two parts of the mean, and the squares.
template <typename T, typename Rows>
struct Moments {
  using Element = T;
  using C = Compute<T>;
  static constexpr int kWidth = 4, kAhead = 8;
  const T* x;
  int64_t columns;
  Rows real;

  template <int V>
  struct State {
    C n;  // rows so far, for all V columns
    Moment<C> of[V];
  };
  GPU_DEVICE int64_t rows(int64_t given) const { return real.count(given); }
  template <int V>
  GPU_DEVICE State<V> start(int64_t) const {
    State<V> state;
    state.n = C(0);
    for (int v = 0; v < V; ++v) state.of[v] = {C(0), C(0), C(0)};
    return state;
  }
  template <int V, int R>
  GPU_DEVICE void add(int64_t row, int64_t step, int64_t column, State<V>& state) const {
    Pack<T, V> loaded[R];
    for (int i = 0; i < R; ++i) loaded[i] = load<V>(x + real.at(row + i * step) * columns + column);
    const C n = state.n + C(R), share = C(R) / n, product = state.n * share;
    for (int v = 0; v < V; ++v) {
      C batch[R];
      for (int i = 0; i < R; ++i) batch[i] = static_cast<C>(loaded[i].value[v]);
      const Moment<C> moment = moment_of<R>(batch);
      if (state.n == C(0)) {
        state.of[v] = moment;
      } else {
        state.of[v].merge(moment, share, product);
      }
    }
    state.n = n;
  }
  template <int V>
  GPU_DEVICE void totals(const State<V>& state, C (&to)[V][kWidth]) const {
    for (int v = 0; v < V; ++v) {
      to[v][0] = state.n;
      to[v][1] = state.of[v].mean;
      to[v][2] = state.of[v].rest;
      to[v][3] = state.of[v].squares;
    }
  }
  GPU_DEVICE void none(C (&to)[kWidth]) const {
    for (int k = 0; k < kWidth; ++k) to[k] = C(0);
  }
  GPU_DEVICE void combine(C (&into)[kWidth], const C (&other)[kWidth]) const {
    if (other[0] == C(0)) return;
    const C n = into[0] + other[0], share = other[0] / n;
    Moment<C> moment{into[1], into[2], into[3]};
    const Moment<C> second{other[1], other[2], other[3]};
    if (into[0] == C(0)) {
      moment = second;
    } else {
      moment.merge(second, share, into[0] * share);
    }
    into[0] = n;
    into[1] = moment.mean;
    into[2] = moment.rest;
    into[3] = moment.squares;
  }
};

// Every row of x.
struct AllRows {
  GPU_DEVICE int64_t count(int64_t rows) const { return rows; }
  GPU_DEVICE int64_t at(int64_t row) const { return row; }
};

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_MOMENTS_H_
