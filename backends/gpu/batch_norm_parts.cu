// batch_norm whose statistics are computed in parts and merged (plugins/operations.md, "Batch
// normalisation over several ranks").
#include "backends/gpu/column_gradient.h"
#include "backends/gpu/moments.h"
#include "backends/gpu/normalisation.h"

namespace backends::gpu {
namespace {

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

// The rows that are no padding, in their order. So the statistics have the same bits wherever
// padding lies.
struct RealRows {
  const int32_t* list;
  Divisor positions;
  GPU_DEVICE int64_t count(int64_t) const { return list[0] * positions.value(); }
  GPU_DEVICE int64_t at(int64_t row) const {
    const int64_t sample = positions.quotient(row);
    return (list[1 + sample] - sample) * positions.value() + row;
  }
};

// Stores the totals of Moments as [2C+1]: means, sums of squared deviations, number of rows.
template <typename C>
struct StorePart {
  C* part;
  int64_t columns;
  GPU_DEVICE void operator()(int64_t c, C (&totals)[4]) const {
    part[c] = totals[1] + totals[2];
    part[columns + c] = totals[3];
    if (c == 0) part[2 * columns] = totals[0];
  }
};

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

// The statistics of `moments` [2C+1]: means, variances, number of rows.
template <typename C>
ColumnStatistics<C> statistics_of(const C* moments, const NormShape& s) {
  return {moments, nullptr, nullptr, moments + s.columns, static_cast<C>(s.epsilon)};
}

}  // namespace

Kernel make_statistics(const Properties&, const Operation& op) {
  const int64_t columns = last_dim(op.input(0)), samples = op.input(0).dims[0];
  const int64_t rows = row_count(op.input(0)), positions = samples == 0 ? 1 : rows / samples;
  expect_at_most(op, samples, INT32_MAX, "samples");  // a list of int32_t has the real ones
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    using Function = Moments<T, RealRows>;
    Kernel kernel;
    const uint64_t partial = column_workspace<C>(op, rows, columns, Function::kWidth);
    const uint64_t sums = static_cast<uint64_t>(divide_up(static_cast<int64_t>(partial), 16)) * 16;
    const uint64_t list_bytes = static_cast<uint64_t>(samples + 1) * sizeof(int32_t);
    kernel.workspace_bytes = sums + list_bytes;
    const auto listed = static_cast<double>(list_bytes);
    kernel.work.push_back({"list of real samples", bytes_of(op.input(1)) + listed});
    column_work(kernel.work, bytes_of(op.input(0)) + listed, bytes_of(op.output(0)), partial);
    kernel.run = [=](const Launch& l) {
      auto* list = reinterpret_cast<int32_t*>(static_cast<char*>(l.workspace) + sums);
      for_rows<float>(l, 1, ListReal<C>{l.input<C>(1), list, samples}, "batch_norm_statistics");
      column_sums<C, Function::kWidth>(
          l, rows, columns, static_cast<C*>(l.workspace),
          Function{l.input<T>(0), columns, RealRows{list, Divisor(positions)}},
          StorePart<C>{l.output<C>(0), columns}, "batch_norm_statistics");
    };
    return kernel;
  });
}

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
  const NormShape s = norm_shape(op, 1);
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    Kernel kernel;
    kernel.workspace_bytes = column_workspace<C>(op, s.rows, s.columns, 2);
    column_work(kernel.work, bytes_of(op.input(0)) + bytes_of(op.input(1)) + bytes_of(op.input(2)),
                bytes_of(op.output(0)), kernel.workspace_bytes);
    kernel.run = [=](const Launch& l) {
      column_sums<C, 2>(
          l, s.rows, s.columns, static_cast<C*>(l.workspace),
          GradientSums<T>(l.input<T>(0), l.input<T>(1), statistics_of(l.input<C>(2), s), s.columns),
          StoreSums<C>{l.output<C>(0), l.output<C>(0) + s.columns},
          "batch_norm_backward_statistics");
    };
    return kernel;
  });
}

Kernel make_backward_apply(const Properties&, const Operation& op) {
  const NormShape s = norm_shape(op, 1);
  const int64_t samples = op.input(1).dims[0], positions = samples == 0 ? 1 : s.rows / samples;
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    Kernel kernel;
    double bytes = bytes_of(op.output(0));
    for (uint32_t i = 0; i < op.input_count(); ++i) bytes += bytes_of(op.input(i));
    kernel.work.push_back({"gradient", s.count() > 0 ? bytes : 0});
    kernel.run = [=](const Launch& l) {
      const C *moments = l.input<C>(3), *sums = l.input<C>(4);
      for_columns(
          l, s.rows, s.columns,
          ColumnGradient<T>{l.input<T>(0), l.input<T>(1), l.input<C>(2), sums, sums + s.columns,
                            l.input<C>(5), moments + 2 * s.columns, statistics_of(moments, s),
                            l.output<T>(0), s.columns, Divisor(positions), C(0)},
          "batch_norm_backward_apply");
    };
    return kernel;
  });
}

}  // namespace backends::gpu
