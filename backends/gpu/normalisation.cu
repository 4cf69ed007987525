// batch_norm (over all dimensions but the last), batch_norm_inference, batch_norm_apply, and the
// table of all normalisations. They see x as [rows, columns]. batch_norm saves the mean,
// 1/sqrt(var + epsilon) and a correction of the mean, in the compute type, with one entry per
// column: the mean of numbers that are far from zero and close together is less exact than their
// differences (moments.h).
#include "backends/gpu/column_gradient.h"
#include "backends/gpu/moments.h"
#include "backends/gpu/normalisation.h"
#include "backends/gpu/normalised_columns.h"
#include "backends/gpu/residual_relu.h"

namespace backends::gpu {
namespace {

// Computes what batch_norm saves and its running statistics from the totals of Moments.
template <typename C>
struct StoreStatistics {
  C *mean, *inverse, *rest;
  const C *old_mean, *old_variance;
  C *new_mean, *new_variance;
  C n, momentum, epsilon;
  GPU_DEVICE void operator()(int64_t c, C (&totals)[4]) const {
    const C squares = totals[3];
    const C variance = squares / n, unbiased = n > C(1) ? squares / (n - C(1)) : variance;
    const C keep = C(1) - momentum;
    mean[c] = totals[1];
    rest[c] = totals[2];
    inverse[c] = C(1) / sqrt_of(variance + epsilon);
    new_mean[c] = keep * old_mean[c] + momentum * (totals[1] + totals[2]);
    new_variance[c] = keep * old_variance[c] + momentum * unbiased;
  }
};

// Queues the kernel that normalises; gamma and beta are operands 1 and 2.
template <typename T>
void normalise(const Launch& l, const NormShape& s, const ColumnStatistics<Compute<T>>& of,
               const PostPlan& post) {
  using C = Compute<T>;
  with_residual_relu<T>(post.bind(l), [&]<typename Posts>(const Posts& posts) {
    for_columns(l, s.rows, s.columns,
                Normalise<T, Posts>{l.input<T>(0), l.input<C>(1), l.input<C>(2), of, l.output<T>(0),
                                    s.columns, posts},
                "normalise");
  });
}

// Bytes that this kernel reads and writes; `vectors` is the number of vectors of the columns.
double normalise_bytes(const Operation& op, int vectors) {
  return 2 * bytes_of(op.input(0)) + vectors * bytes_of(op.input(1)) + post_bytes(op);
}

Kernel make_batch_norm(const Properties&, const Operation& op) {
  const NormShape s = norm_shape(op, 0);
  const PostPlan post(op);
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    using Function = Moments<T, AllRows>;
    Kernel kernel;
    kernel.saved_bytes = static_cast<uint64_t>(3 * s.columns) * sizeof(C);
    kernel.workspace_bytes = column_workspace<C>(op, s.rows, s.columns, Function::kWidth);
    column_work(kernel.work, bytes_of(op.input(0)), 7 * bytes_of(op.input(1)),
                kernel.workspace_bytes);
    kernel.work.push_back({"normalise", normalise_bytes(op, 5)});
    kernel.run = [=](const Launch& l) {
      C* const mean = static_cast<C*>(l.saved);
      C* const inverse = mean + s.columns;
      C* const rest = inverse + s.columns;
      column_sums<C, Function::kWidth>(
          l, s.rows, s.columns, static_cast<C*>(l.workspace),
          Function{l.input<T>(0), s.columns, {}},
          StoreStatistics<C>{mean, inverse, rest, l.input<C>(3), l.input<C>(4), l.output<C>(1),
                             l.output<C>(2), static_cast<C>(s.rows), static_cast<C>(s.momentum),
                             static_cast<C>(s.epsilon)},
          "batch_norm");
      normalise<T>(l, s, {mean, rest, inverse, nullptr, C(0)}, post);
    };
    return kernel;
  });
}

// For batch_norm_inference (mean and variance are operands 3 and 4) and batch_norm_apply (moments
// are operand 3).
Kernel make_normalise(const Properties&, const Operation& op) {
  const NormShape s = norm_shape(op, 0);
  const PostPlan post(op);
  const bool moments = op.is(RT_OP_BATCH_NORM_APPLY);
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    Kernel kernel;
    kernel.work.push_back({"normalise", s.count() > 0 ? normalise_bytes(op, 4) : 0});
    kernel.run = [=](const Launch& l) {
      const C* variance = moments ? l.input<C>(3) + s.columns : l.input<C>(4);
      normalise<T>(l, s, {l.input<C>(3), nullptr, nullptr, variance, static_cast<C>(s.epsilon)},
                   post);
    };
    return kernel;
  });
}

Kernel make_batch_norm_backward(const Properties&, const Operation& op) {
  const NormShape s = norm_shape(op, 1);
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    Kernel kernel;
    kernel.reads_saved = static_cast<uint64_t>(3 * s.columns) * sizeof(C);
    kernel.workspace_bytes = column_workspace<C>(op, s.rows, s.columns, 2);
    const double x = bytes_of(op.input(1)), vector = bytes_of(op.input(2));
    column_work(kernel.work, 2 * x + 3 * vector, 2 * vector, kernel.workspace_bytes);
    kernel.work.push_back({"gradient", 3 * x + 6 * vector});
    kernel.run = [=](const Launch& l) {
      const C* mean = static_cast<const C*>(l.saved);
      const ColumnStatistics<C> of{mean, mean + 2 * s.columns, mean + s.columns, nullptr, C(0)};
      const T *dy = l.input<T>(0), *x = l.input<T>(1);
      C *dgamma = l.output<C>(1), *dbeta = l.output<C>(2);
      column_sums<C, 2>(l, s.rows, s.columns, static_cast<C*>(l.workspace),
                        GradientSums<T>(dy, x, of, s.columns), StoreSums<C>{dbeta, dgamma},
                        "batch_norm_backward");
      for_columns(l, s.rows, s.columns,
                  ColumnGradient<T>{dy, x, l.input<C>(2), dbeta, dgamma, nullptr, nullptr, of,
                                    l.output<T>(0), s.columns, Divisor(1), static_cast<C>(s.rows)},
                  "batch_norm_backward");
    };
    return kernel;
  });
}

constexpr Entry kEntries[] = {
    {RT_OP_BATCH_NORM, make_batch_norm, kFuses},
    {RT_OP_BATCH_NORM_INFERENCE, make_normalise, kFuses},
    {RT_OP_BATCH_NORM_BACKWARD, make_batch_norm_backward},
    {RT_OP_BATCH_NORM_STATISTICS, make_statistics},
    {RT_OP_BATCH_NORM_MERGE, make_merge},
    {RT_OP_BATCH_NORM_APPLY, make_normalise, kFuses},
    {RT_OP_BATCH_NORM_BACKWARD_STATISTICS, make_backward_statistics},
    {RT_OP_BATCH_NORM_BACKWARD_APPLY, make_backward_apply},
    {RT_OP_LAYER_NORM, make_layer_norm},
    {RT_OP_LAYER_NORM_BACKWARD, make_layer_norm_backward, kFuses},
    {RT_OP_RMS_NORM, make_rms_norm},
    {RT_OP_RMS_NORM_BACKWARD, make_rms_norm_backward, kFuses},
};

}  // namespace

Family normalisation_family() { return {kEntries, std::size(kEntries)}; }

}  // namespace backends::gpu
