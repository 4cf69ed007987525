// batch_norm (over all dimensions but the last), layer_norm (over the last dimension), and their
// gradients. Both see x as [rows, columns]. They save the mean, 1/sqrt(var + epsilon) and a
// correction of the mean, in the compute type, with one entry per column (batch_norm) or row
// (layer_norm).
//
// The mean of numbers that are far from zero and close together is less exact than their
// differences: sums of many numbers round, and so does the mean. So the second pass also adds up
// the deviations from the mean. Their mean is the correction, and the variance is corrected by it
// (Chan, Golub, LeVeque, "Algorithms for computing the sample variance", 1983, section 3).
#include "backends/gpu/columns.h"
#include "backends/gpu/post_ops.h"

namespace backends::gpu {
namespace {

// Statistics of columns or rows. `rest` is the correction of the mean; null: no correction.
template <typename C>
struct Statistics {
  const C *mean, *inverse, *rest;
  GPU_DEVICE C normal(C x, int64_t of) const {
    const C centred = x - mean[of];
    return (rest ? centred - rest[of] : centred) * inverse[of];
  }
};

// y[i] = gamma xhat + beta, followed by the post-operations.
template <typename T>
struct Normalise {
  using C = Compute<T>;
  const T* x;
  const C *gamma, *beta;
  Statistics<C> statistics;
  T* y;
  int64_t columns;
  PostOps post;
  GPU_DEVICE void operator()(int64_t i) const {
    const int64_t c = i % columns;
    const C xhat = statistics.normal(static_cast<C>(x[i]), c);
    y[i] = static_cast<T>(post.apply<T>(gamma[c] * xhat + beta[c], i, c));
  }
};

template <typename C>
struct StoreMean {
  C* mean;
  C n;
  GPU_DEVICE void operator()(int64_t c, C (&totals)[1]) const { mean[c] = totals[0] / n; }
};
template <typename T>
struct ColumnSquares : Adds<Compute<T>> {
  using C = Compute<T>;
  const T* x;
  const C* mean;
  int64_t columns;
  ColumnSquares(const T* data, const C* means, int64_t width)
      : x(data), mean(means), columns(width) {}
  GPU_DEVICE void operator()(int64_t row, int64_t c, C (&sums)[2]) const {
    const C d = static_cast<C>(x[row * columns + c]) - mean[c];
    sums[0] += d;
    sums[1] += d * d;
  }
};
// The sum of squared deviations from the mean, given the sum of deviations from an approximate
// mean, the sum of their squares, and `rest`, the mean deviation. NaN gives NaN.
template <typename C>
GPU_DEVICE C corrected(C sum, C squares, C rest) {
  const C result = squares - sum * rest;
  return result < C(0) ? C(0) : result;
}
template <typename C>
struct StoreVariance {
  const C* mean;
  C *inverse, *rest;
  const C *old_mean, *old_variance;
  C *new_mean, *new_variance;
  C n, momentum, epsilon;
  GPU_DEVICE void operator()(int64_t c, C (&totals)[2]) const {
    rest[c] = totals[0] / n;
    const C squares = corrected(totals[0], totals[1], rest[c]);
    const C variance = squares / n, unbiased = n > C(1) ? squares / (n - C(1)) : variance;
    const C keep = C(1) - momentum;
    new_mean[c] = keep * old_mean[c] + momentum * (mean[c] + rest[c]);
    new_variance[c] = keep * old_variance[c] + momentum * unbiased;
    inverse[c] = C(1) / sqrt_of(variance + epsilon);
  }
};

struct Shape {
  int64_t rows, columns;
  double epsilon, momentum;
  int64_t count() const { return rows * columns; }
};
Shape shape_of(const Operation& op, uint32_t x) {
  const int64_t columns = last_dim(op.input(x));
  return {row_count(op.input(x)), columns, op.number(RT_ATTR_EPSILON),
          op.number(RT_ATTR_MOMENTUM, 0.1)};
}

Kernel make_batch_norm(const Properties&, const Operation& op) {
  const Shape s = shape_of(op, 0);
  const PostPlan post(op);
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    Kernel kernel;
    kernel.saved_bytes = static_cast<uint64_t>(3 * s.columns) * sizeof(C);
    kernel.workspace_bytes = column_workspace<C>(s.rows, s.columns, 2);
    kernel.run = [=](const Launch& l) {
      C* const mean = static_cast<C*>(l.saved);
      C* const inverse = mean + s.columns;
      C* const rest = inverse + s.columns;
      C* const workspace = static_cast<C*>(l.workspace);
      const T* x = l.input<T>(0);
      const C n = static_cast<C>(s.rows);
      column_sums<C, 1>(l, s.rows, s.columns, workspace, ColumnOf<T>(x, s.columns),
                        StoreMean<C>{mean, n}, "batch_norm");
      column_sums<C, 2>(l, s.rows, s.columns, workspace, ColumnSquares<T>(x, mean, s.columns),
                        StoreVariance<C>{mean, inverse, rest, l.input<C>(3), l.input<C>(4),
                                         l.output<C>(1), l.output<C>(2), n,
                                         static_cast<C>(s.momentum), static_cast<C>(s.epsilon)},
                        "batch_norm");
      for_each(l, s.count(),
               Normalise<T>{x,
                            l.input<C>(1),
                            l.input<C>(2),
                            {mean, inverse, rest},
                            l.output<T>(0),
                            s.columns,
                            post.bind(l)},
               "batch_norm");
    };
    return kernel;
  });
}

// Copies the mean and computes 1/sqrt(variance + epsilon).
template <typename C>
struct Invert {
  const C *mean, *variance;
  C *to_mean, *inverse;
  C epsilon;
  GPU_DEVICE void operator()(int64_t c) const {
    to_mean[c] = mean[c];
    inverse[c] = C(1) / sqrt_of(variance[c] + epsilon);
  }
};

// For batch_norm_inference (mean and variance are operands 3 and 4) and batch_norm_apply (moments
// are operand 3).
Kernel make_normalise(const Properties&, const Operation& op) {
  const Shape s = shape_of(op, 0);
  const PostPlan post(op);
  const bool moments = op.is(RT_OP_BATCH_NORM_APPLY);
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    Kernel kernel;
    kernel.workspace_bytes = static_cast<uint64_t>(2 * s.columns) * sizeof(C);
    kernel.run = [=](const Launch& l) {
      C* const mean = static_cast<C*>(l.workspace);
      C* const inverse = mean + s.columns;
      const C* variance = moments ? l.input<C>(3) + s.columns : l.input<C>(4);
      for_each(l, s.columns,
               Invert<C>{l.input<C>(3), variance, mean, inverse, static_cast<C>(s.epsilon)},
               "normalise");
      for_each(l, s.count(),
               Normalise<T>{l.input<T>(0),
                            l.input<C>(1),
                            l.input<C>(2),
                            {mean, inverse, nullptr},
                            l.output<T>(0),
                            s.columns,
                            post.bind(l)},
               "normalise");
    };
    return kernel;
  });
}

// Sums of dy and of dy xhat. The statistics belong to columns (batch_norm) or to rows (layer_norm).
template <typename T, bool OfRows>
struct GradientSums : Adds<Compute<T>> {
  using C = Compute<T>;
  const T *dy, *x;
  Statistics<C> statistics;
  int64_t columns;
  GradientSums(const T* gradient, const T* data, Statistics<C> of, int64_t width)
      : dy(gradient), x(data), statistics(of), columns(width) {}
  GPU_DEVICE void operator()(int64_t row, int64_t c, C (&sums)[2]) const {
    const int64_t i = row * columns + c, of = OfRows ? row : c;
    const C g = static_cast<C>(dy[i]);
    sums[0] += g;
    sums[1] += g * statistics.normal(static_cast<C>(x[i]), of);
  }
};
template <typename C>
struct StoreSums {
  C *sum, *dot;
  GPU_DEVICE void operator()(int64_t c, C (&totals)[2]) const {
    sum[c] = totals[0];
    dot[c] = totals[1];
  }
};

// Computes dx. `weight` [samples] is 0 for padding samples, whose dx is 0; each sample has
// `positions` rows. If it is null, no sample is padding. The number of rows without padding is `*n`
// (device memory) or, if `n` is null, `rows`.
template <typename T>
struct ColumnGradient {
  using C = Compute<T>;
  const T *dy, *x;
  const C *gamma, *sum, *dot, *weight, *n;
  Statistics<C> statistics;
  T* dx;
  int64_t columns, positions;
  C rows;
  GPU_DEVICE void operator()(int64_t i) const {
    const int64_t c = i % columns;
    const C count = n ? *n : rows;
    const bool real = count > C(0) && (!weight || weight[i / columns / positions] > C(0));
    const C xhat = statistics.normal(static_cast<C>(x[i]), c);
    const C centred = static_cast<C>(dy[i]) - sum[c] / count - xhat * dot[c] / count;
    dx[i] = real ? static_cast<T>(gamma[c] * statistics.inverse[c] * centred) : static_cast<T>(0);
  }
};

Kernel make_batch_norm_backward(const Properties&, const Operation& op) {
  const Shape s = shape_of(op, 1);
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    Kernel kernel;
    kernel.reads_saved = static_cast<uint64_t>(3 * s.columns) * sizeof(C);
    kernel.workspace_bytes = column_workspace<C>(s.rows, s.columns, 2);
    kernel.run = [=](const Launch& l) {
      const C* mean = static_cast<const C*>(l.saved);
      const Statistics<C> of{mean, mean + s.columns, mean + 2 * s.columns};
      const T *dy = l.input<T>(0), *x = l.input<T>(1);
      C *dgamma = l.output<C>(1), *dbeta = l.output<C>(2);
      column_sums<C, 2>(l, s.rows, s.columns, static_cast<C*>(l.workspace),
                        GradientSums<T, false>(dy, x, of, s.columns), StoreSums<C>{dbeta, dgamma},
                        "batch_norm_backward");
      for_each(l, s.count(),
               ColumnGradient<T>{dy, x, l.input<C>(2), dbeta, dgamma, nullptr, nullptr, of,
                                 l.output<T>(0), s.columns, 1, static_cast<C>(s.rows)},
               "batch_norm_backward");
    };
    return kernel;
  });
}

// ---- layer_norm: a block of threads computes one row

template <typename T>
struct LayerNorm {
  using C = Compute<T>;
  const T* x;
  const C *gamma, *beta;
  T* y;
  C *means, *inverses, *rests;
  int64_t columns;
  C epsilon;
  GPU_DEVICE void operator()(int64_t row, C* scratch) const {
    const T* from = x + row * columns;
    const C n = static_cast<C>(columns);
    const C mean =
        block_sum(columns, scratch, [&](int64_t c) { return static_cast<C>(from[c]); }) / n;
    const auto deviation = [&](int64_t c) { return static_cast<C>(from[c]) - mean; };
    const C sum = block_sum(columns, scratch, deviation), rest = sum / n;
    const C squares = block_sum(columns, scratch, [&](int64_t c) {
      const C d = deviation(c);
      return d * d;
    });
    const C inverse = C(1) / sqrt_of(corrected(sum, squares, rest) / n + epsilon);
    for (int64_t c = threadIdx.x; c < columns; c += kBlock) {
      y[row * columns + c] = static_cast<T>(gamma[c] * ((deviation(c) - rest) * inverse) + beta[c]);
    }
    if (threadIdx.x == 0) {
      means[row] = mean;
      inverses[row] = inverse;
      rests[row] = rest;
    }
  }
};

template <typename T>
struct LayerNormGradient {
  using C = Compute<T>;
  const T *dy, *x;
  const C* gamma;
  T* dx;
  Statistics<C> statistics;
  int64_t columns;
  GPU_DEVICE void operator()(int64_t row, C* scratch) const {
    const T *g = dy + row * columns, *from = x + row * columns;
    const C inverse = statistics.inverse[row], n = static_cast<C>(columns);
    const auto dxhat = [&](int64_t c) { return static_cast<C>(g[c]) * gamma[c]; };
    const auto xhat = [&](int64_t c) { return statistics.normal(static_cast<C>(from[c]), row); };
    const C sum = block_sum(columns, scratch, dxhat) / n;
    const C dot = block_sum(columns, scratch, [&](int64_t c) { return dxhat(c) * xhat(c); }) / n;
    for (int64_t c = threadIdx.x; c < columns; c += kBlock) {
      dx[row * columns + c] = static_cast<T>(inverse * (dxhat(c) - sum - xhat(c) * dot));
    }
  }
};

Kernel make_layer_norm(const Properties&, const Operation& op) {
  const Shape s = shape_of(op, 0);
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    Kernel kernel;
    kernel.saved_bytes = static_cast<uint64_t>(3 * s.rows) * sizeof(C);
    kernel.run = [=](const Launch& l) {
      C* const means = static_cast<C*>(l.saved);
      for_rows<C>(
          l, s.rows,
          LayerNorm<T>{l.input<T>(0), l.input<C>(1), l.input<C>(2), l.output<T>(0), means,
                       means + s.rows, means + 2 * s.rows, s.columns, static_cast<C>(s.epsilon)},
          "layer_norm");
    };
    return kernel;
  });
}

Kernel make_layer_norm_backward(const Properties&, const Operation& op) {
  const Shape s = shape_of(op, 1);
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    Kernel kernel;
    kernel.reads_saved = static_cast<uint64_t>(3 * s.rows) * sizeof(C);
    kernel.workspace_bytes = column_workspace<C>(s.rows, s.columns, 2);
    kernel.run = [=](const Launch& l) {
      const C* means = static_cast<const C*>(l.saved);
      const Statistics<C> of{means, means + s.rows, means + 2 * s.rows};
      const T *dy = l.input<T>(0), *x = l.input<T>(1);
      for_rows<C>(l, s.rows,
                  LayerNormGradient<T>{dy, x, l.input<C>(2), l.output<T>(0), of, s.columns},
                  "layer_norm_backward");
      column_sums<C, 2>(l, s.rows, s.columns, static_cast<C*>(l.workspace),
                        GradientSums<T, true>(dy, x, of, s.columns),
                        StoreSums<C>{l.output<C>(2), l.output<C>(1)}, "layer_norm_backward");
    };
    return kernel;
  });
}

// ---- batch_norm whose statistics are computed in parts and merged

// Writes the indices of the samples that are not padding (weight > 0), in ascending order, to
// list[1..], and their number to list[0]. Runs in one block.
template <typename C>
struct ListReal {
  const C* weight;
  int32_t* list;
  int64_t samples;
  GPU_DEVICE void operator()(int64_t, float*) const {
    __shared__ int32_t counts[kBlock];
    const int64_t share = (samples + kBlock - 1) / kBlock, t = threadIdx.x;
    const int64_t begin = t * share < samples ? t * share : samples;
    const int64_t end = begin + share < samples ? begin + share : samples;
    int32_t mine = 0;
    for (int64_t i = begin; i < end; ++i) mine += weight[i] > C(0);
    counts[t] = mine;
    __syncthreads();
    int32_t before = 0;
    for (int64_t i = 0; i < t; ++i) before += counts[i];
    if (t == kBlock - 1) list[0] = before + mine;
    for (int64_t i = begin; i < end; ++i) {
      if (weight[i] > C(0)) list[++before] = static_cast<int32_t>(i);
    }
  }
};

// Sets `at` to the index of the element of column c in row `row`, counted without padding samples;
// returns false if there is no such row.
struct RealRows {
  const int32_t* list;
  int64_t positions, columns;
  GPU_DEVICE bool find(int64_t row, int64_t c, int64_t& at) const {
    const int64_t sample = row / positions;
    if (sample >= list[0]) return false;
    at = (list[1 + sample] * positions + row - sample * positions) * columns + c;
    return true;
  }
};

// Sums of x - mean and of its square. `mean` null stands for 0.
template <typename T>
struct RealSums : Adds<Compute<T>> {
  using C = Compute<T>;
  const T* x;
  const C* mean;
  RealRows rows;
  RealSums(const T* data, const C* means, RealRows real) : x(data), mean(means), rows(real) {}
  GPU_DEVICE void operator()(int64_t row, int64_t c, C (&sums)[2]) const {
    int64_t at;
    if (!rows.find(row, c, at)) return;
    const C d = static_cast<C>(x[at]) - (mean ? mean[c] : C(0));
    sums[0] += d;
    sums[1] += d * d;
  }
};
template <typename C>
struct StorePart {
  const int32_t* list;
  C* part;  // [2C+1]: means, sums of squared deviations, number of rows
  int64_t positions, columns;
  bool second;  // second pass: the mean is corrected by the mean deviation from it
  GPU_DEVICE void operator()(int64_t c, C (&totals)[2]) const {
    const C n = static_cast<C>(list[0]) * static_cast<C>(positions);
    const C mean = totals[0] / (n > C(1) ? n : C(1));
    part[c] = second ? part[c] + mean : mean;
    part[columns + c] = corrected(totals[0], totals[1], mean);
    if (c == 0) part[2 * columns] = n;
  }
};

Kernel make_statistics(const Properties&, const Operation& op) {
  const int64_t columns = last_dim(op.input(0)), samples = op.input(0).dims[0];
  const int64_t rows = row_count(op.input(0)), positions = samples == 0 ? 1 : rows / samples;
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    Kernel kernel;
    const uint64_t sums =
        divide_up(static_cast<int64_t>(column_workspace<C>(rows, columns, 2)), 16) * 16;
    kernel.workspace_bytes = sums + static_cast<uint64_t>(samples + 1) * sizeof(int32_t);
    kernel.run = [=](const Launch& l) {
      C* const workspace = static_cast<C*>(l.workspace);
      auto* list = reinterpret_cast<int32_t*>(static_cast<char*>(l.workspace) + sums);
      C* const part = l.output<C>(0);
      const RealRows real{list, positions, columns};
      for_rows<float>(l, 1, ListReal<C>{l.input<C>(1), list, samples}, "batch_norm_statistics");
      column_sums<C, 2>(l, rows, columns, workspace, RealSums<T>(l.input<T>(0), nullptr, real),
                        StorePart<C>{list, part, positions, columns, false},
                        "batch_norm_statistics");
      column_sums<C, 2>(l, rows, columns, workspace, RealSums<T>(l.input<T>(0), part, real),
                        StorePart<C>{list, part, positions, columns, true},
                        "batch_norm_statistics");
    };
    return kernel;
  });
}

// Merges means and sums of squared deviations of several parts (Chan, Golub, LeVeque, "Updating
// formulae and a pairwise algorithm for computing sample variances", 1979), in one thread per
// channel.
template <typename T>
struct MergeParts {
  using C = Compute<T>;
  const T *parts, *old_mean, *old_variance;
  T *moments, *new_mean, *new_variance;
  int64_t groups, columns;
  C momentum;
  GPU_DEVICE void operator()(int64_t c) const {
    C mean = C(0), squares = C(0), n = C(0);
    for (int64_t g = 0; g < groups; ++g) {
      const T* part = parts + g * (2 * columns + 1);
      const C m = static_cast<C>(part[2 * columns]);
      if (m == C(0)) continue;
      const C delta = static_cast<C>(part[c]) - mean, total = n + m;
      mean += delta * m / total;
      squares += static_cast<C>(part[columns + c]) + delta * delta * n * m / total;
      n = total;
    }
    const C variance = squares / (n > C(1) ? n : C(1));
    const C unbiased = n > C(1) ? squares / (n - C(1)) : variance;
    const C update = n > C(0) ? momentum : C(0), keep = C(1) - update;
    moments[c] = static_cast<T>(mean);
    moments[columns + c] = static_cast<T>(variance);
    if (c == 0) moments[2 * columns] = static_cast<T>(n);
    new_mean[c] = static_cast<T>(keep * static_cast<C>(old_mean[c]) + update * mean);
    new_variance[c] = static_cast<T>(keep * static_cast<C>(old_variance[c]) + update * unbiased);
  }
};

Kernel make_merge(const Properties&, const Operation& op) {
  const int64_t groups = op.input(0).dims[0], columns = op.input(0).dims[1] / 2;
  const double momentum = op.number(RT_ATTR_MOMENTUM, 0.1);
  return for_wide(op.input(0).dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.run = [=](const Launch& l) {
      for_each(
          l, columns,
          MergeParts<T>{l.input<T>(0), l.input<T>(1), l.input<T>(2), l.output<T>(0), l.output<T>(1),
                        l.output<T>(2), groups, columns, static_cast<Compute<T>>(momentum)},
          "batch_norm_merge");
    };
    return kernel;
  });
}

Kernel make_backward_statistics(const Properties&, const Operation& op) {
  const Shape s = shape_of(op, 1);
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    Kernel kernel;
    const uint64_t sums = column_workspace<C>(s.rows, s.columns, 2);
    kernel.workspace_bytes = sums + static_cast<uint64_t>(2 * s.columns) * sizeof(C);
    kernel.run = [=](const Launch& l) {
      C* const workspace = static_cast<C*>(l.workspace);
      C* const mean = workspace + sums / sizeof(C);
      const C* moments = l.input<C>(2);
      for_each(l, s.columns,
               Invert<C>{moments, moments + s.columns, mean, mean + s.columns,
                         static_cast<C>(s.epsilon)},
               "batch_norm_backward_statistics");
      column_sums<C, 2>(l, s.rows, s.columns, workspace,
                        GradientSums<T, false>(l.input<T>(0), l.input<T>(1),
                                               {mean, mean + s.columns, nullptr}, s.columns),
                        StoreSums<C>{l.output<C>(0), l.output<C>(0) + s.columns},
                        "batch_norm_backward_statistics");
    };
    return kernel;
  });
}

Kernel make_backward_apply(const Properties&, const Operation& op) {
  const Shape s = shape_of(op, 1);
  const int64_t samples = op.input(1).dims[0], positions = samples == 0 ? 1 : s.rows / samples;
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    Kernel kernel;
    kernel.workspace_bytes = static_cast<uint64_t>(2 * s.columns) * sizeof(C);
    kernel.run = [=](const Launch& l) {
      C* const mean = static_cast<C*>(l.workspace);
      const C *moments = l.input<C>(3), *sums = l.input<C>(4);
      for_each(l, s.columns,
               Invert<C>{moments, moments + s.columns, mean, mean + s.columns,
                         static_cast<C>(s.epsilon)},
               "batch_norm_backward_apply");
      for_each(l, s.count(),
               ColumnGradient<T>{l.input<T>(0), l.input<T>(1), l.input<C>(2), sums,
                                 sums + s.columns, l.input<C>(5), moments + 2 * s.columns,
                                 Statistics<C>{mean, mean + s.columns, nullptr}, l.output<T>(0),
                                 s.columns, positions, C(0)},
               "batch_norm_backward_apply");
    };
    return kernel;
  });
}

constexpr Entry kEntries[] = {
    {RT_OP_BATCH_NORM, make_batch_norm, true},
    {RT_OP_BATCH_NORM_INFERENCE, make_normalise, true},
    {RT_OP_BATCH_NORM_BACKWARD, make_batch_norm_backward},
    {RT_OP_BATCH_NORM_STATISTICS, make_statistics},
    {RT_OP_BATCH_NORM_MERGE, make_merge},
    {RT_OP_BATCH_NORM_APPLY, make_normalise, true},
    {RT_OP_BATCH_NORM_BACKWARD_STATISTICS, make_backward_statistics},
    {RT_OP_BATCH_NORM_BACKWARD_APPLY, make_backward_apply},
    {RT_OP_LAYER_NORM, make_layer_norm},
    {RT_OP_LAYER_NORM_BACKWARD, make_layer_norm_backward},
};

}  // namespace

Family normalisation_family() { return {kEntries, std::size(kEntries)}; }

}  // namespace backends::gpu
