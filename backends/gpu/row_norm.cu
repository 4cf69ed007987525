// layer_norm and rms_norm (over the last dimension) and their gradients, as templates over
// kCentred: whether the mean is subtracted, as layer_norm does. They see x as [rows, columns] and
// save the mean, 1/sqrt(var + epsilon) and a correction of the mean, in the compute type, with one
// entry per row; to rms_norm the mean and its correction are 0.
//
// The mean of numbers that are far from zero and close together is less exact than their
// differences: sums of many numbers round, and so does the mean. So the second step also adds up
// the deviations from the mean. Their mean is the correction, and the variance is corrected by it
// (Chan, Golub, LeVeque, "Algorithms for computing the sample variance", 1983, section 3).
//
// A team of threads (team.h) keeps a row in registers, so that it is read once. The kernels for
// rows that are too long for that, or whose length is no multiple of a vector, are in wide_rows.h.
#include "backends/gpu/column_functions.h"
#include "backends/gpu/normalisation.h"
#include "backends/gpu/post_ops.h"
#include "backends/gpu/team.h"
#include "backends/gpu/wide_rows.h"

namespace backends::gpu {
namespace {

template <typename T>
struct RowNormRows {
  const T* x;
  const Compute<T>*gamma, *beta;
  T* y;
  RowStatistics<Compute<T>> statistics;
  int64_t rows, columns;
  Compute<T> epsilon;
};

template <typename T, int kTeam, int kPacks, bool kCentred>
GPU_KERNEL void __launch_bounds__(kBlock) row_norm_kernel(RowNormRows<T> f) {
  using C = Compute<T>;
  constexpr int kWide = kVector<T>, kTeams = kBlock / kTeam;
  __shared__ C scratch[kBlock];
  const int team = static_cast<int>(threadIdx.x) / kTeam;
  const Share<T, kTeam, kPacks> share{static_cast<int>(threadIdx.x) % kTeam,
                                      static_cast<int>(f.columns / kWide)};
  const C n = static_cast<C>(f.columns);
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * kTeams; first < f.rows;
       first += static_cast<int64_t>(gridDim.x) * kTeams) {
    const int64_t row = first + team;
    const bool live = row < f.rows;
    Pack<T, kWide> packs[kPacks];
    share.load(f.x + row * f.columns, live, packs);
    C x[kPacks][kWide], sum = C(0), rest = C(0), squares = C(0);
    for (int p = 0; p < kPacks; ++p) {
      widen<T, kWide>(packs[p], x[p]);
      for (int v = 0; v < kWide; ++v) sum += x[p][v];
    }
    C mean = C(0);
    if constexpr (kCentred) mean = team_reduce<Sum, kTeam>(sum, scratch) / n;
    for (int p = 0; p < kPacks; ++p) {
      for (int v = 0; v < kWide; ++v) {
        x[p][v] = share.has(p) ? x[p][v] - mean : C(0);
        rest += x[p][v];
        squares += x[p][v] * x[p][v];
      }
    }
    sum = kCentred ? team_reduce<Sum, kTeam>(rest, scratch) : C(0);
    squares = team_reduce<Sum, kTeam>(squares, scratch);
    rest = sum / n;
    const C inverse = C(1) / sqrt_of(corrected(sum, squares, rest) / n + f.epsilon);
    for (int p = 0; p < kPacks; ++p) {
      if (!live || !share.has(p)) continue;
      C gamma[kWide], beta[kWide] = {};
      load_columns<kWide>(f.gamma, share.column(p), gamma);
      if constexpr (kCentred) load_columns<kWide>(f.beta, share.column(p), beta);
      for (int v = 0; v < kWide; ++v) x[p][v] = gamma[v] * ((x[p][v] - rest) * inverse) + beta[v];
      store<kWide>(f.y + row * f.columns + share.column(p), narrow<T, kWide>(x[p]));
    }
    if (live && share.lane == 0) f.statistics.store(row, mean, inverse, rest);
  }
}

// Adds up the columns of `sums` over the teams of a block and writes them to to[2][columns].
template <typename T, int kTeam, int kPacks, int kWide, typename C>
GPU_DEVICE void store_sums(const Share<T, kTeam, kPacks>& share, const C (&sums)[2][kPacks][kWide],
                           int64_t columns, C* to) {
  __shared__ C scratch[kTeam == kBlock ? 1 : 2 * kWide * kBlock];
  const int t = static_cast<int>(threadIdx.x);
  for (int p = 0; p < kPacks; ++p) {
    if constexpr (kTeam == kBlock) {
      if (!share.has(p)) continue;
      for (int k = 0; k < 2; ++k)
        for (int v = 0; v < kWide; ++v) to[k * columns + share.column(p) + v] = sums[k][p][v];
    } else {
      for (int k = 0; k < 2; ++k)
        for (int v = 0; v < kWide; ++v) scratch[(k * kWide + v) * kBlock + t] = sums[k][p][v];
      __syncthreads();
      // Sum number i belongs to entry i / kTeam of [2][kWide] and to the columns of lane i % kTeam.
      for (int i = t; i < 2 * kWide * kTeam; i += kBlock) {
        const int entry = i / kTeam, lane = i % kTeam;
        C sum = C(0);
        for (int other = 0; other < kBlock; other += kTeam)
          sum += scratch[entry * kBlock + other + lane];
        const int64_t column = int64_t{lane + p * kTeam} * kWide + entry % kWide;
        if (column < columns) to[entry / kWide * columns + column] = sum;
      }
      __syncthreads();
    }
  }
}

template <typename T>
struct RowNormGradientRows {
  const T *dy, *x, *residual;  // residual: what is added to dx; null: nothing
  const Compute<T>* gamma;
  T* dx;
  RowStatistics<Compute<T>> statistics;
  Compute<T>* partial;  // [blocks][2][columns]: sums of dy and of dy xhat
  int64_t rows, columns;
};

// The number of blocks on one multiprocessor. A thread holds kPacks vectors of dy and of x, and two
// sums for each of their columns: with more blocks, those of long rows would not fit in the
// registers.
template <typename T, int kPacks>
constexpr int blocks_at_once() {
  constexpr size_t kVectors = 2 * sizeof(Pack<T, kVector<T>>);
  constexpr size_t kSums = 2 * sizeof(Compute<T>) * kVector<T>;
  return kPacks * (kVectors + kSums) > 288 ? 1 : 2;
}

// Each block walks down its rows and keeps the sums of the columns in registers, so that dgamma and
// dbeta cost no second reading of dy and x.
template <typename T, int kTeam, int kPacks, bool kCentred>
GPU_KERNEL void __launch_bounds__(kBlock, (blocks_at_once<T, kPacks>()))
    row_norm_gradient_kernel(RowNormGradientRows<T> f) {
  using C = Compute<T>;
  constexpr int kWide = kVector<T>, kTeams = kBlock / kTeam;
  __shared__ C scratch[kBlock];
  const int team = static_cast<int>(threadIdx.x) / kTeam;
  const Share<T, kTeam, kPacks> share{static_cast<int>(threadIdx.x) % kTeam,
                                      static_cast<int>(f.columns / kWide)};
  const C n = static_cast<C>(f.columns);
  C sums[2][kPacks][kWide] = {};
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * kTeams; first < f.rows;
       first += static_cast<int64_t>(gridDim.x) * kTeams) {
    const int64_t row = first + team, at = row * f.columns;
    const bool live = row < f.rows;
    Pack<T, kWide> dy[kPacks], x[kPacks];
    share.load(f.dy + at, live, dy);
    share.load(f.x + at, live, x);
    const RowNumbers<C> of = f.statistics.of(live ? row : 0);
    C sum = C(0), dot = C(0);
    for (int p = 0; p < kPacks; ++p) {
      if (!live || !share.has(p)) continue;
      C gamma[kWide];
      load_columns<kWide>(f.gamma, share.column(p), gamma);
      for (int v = 0; v < kWide; ++v) {
        const C g = static_cast<C>(dy[p].value[v]);
        const C xhat = of.normal(static_cast<C>(x[p].value[v]));
        sums[0][p][v] += g;
        sums[1][p][v] += g * xhat;
        sum += g * gamma[v];
        dot += g * gamma[v] * xhat;
      }
    }
    sum = kCentred ? team_reduce<Sum, kTeam>(sum, scratch) / n : C(0);
    dot = team_reduce<Sum, kTeam>(dot, scratch) / n;
    for (int p = 0; p < kPacks; ++p) {
      if (!live || !share.has(p)) continue;
      C gamma[kWide], to[kWide];
      load_columns<kWide>(f.gamma, share.column(p), gamma);
      Pack<T, kWide> residual{};
      if (f.residual) residual = load<kWide>(f.residual + at + share.column(p));
      for (int v = 0; v < kWide; ++v) {
        const C g = static_cast<C>(dy[p].value[v]) * gamma[v];
        const C xhat = of.normal(static_cast<C>(x[p].value[v]));
        to[v] = of.inverse * (g - sum - xhat * dot);
        if (f.residual) to[v] += static_cast<C>(residual.value[v]);
      }
      store<kWide>(f.dx + at + share.column(p), narrow<T, kWide>(to));
    }
  }
  store_sums<T, kTeam, kPacks>(share, sums, f.columns, f.partial + blockIdx.x * 2 * f.columns);
}

// What the makers need to know of the two operations.
template <bool kCentred>
struct RowNorm {
  static constexpr const char *kName = kCentred ? RT_OP_LAYER_NORM : RT_OP_RMS_NORM,
                              *kBackward =
                                  kCentred ? RT_OP_LAYER_NORM_BACKWARD : RT_OP_RMS_NORM_BACKWARD;
  static constexpr int kVectors = kCentred ? 2 : 1;  // of learned numbers
  template <typename C>
  static const C* beta(const Launch& l) {
    if constexpr (kCentred) return l.input<C>(2);
    return nullptr;
  }
  template <typename C>
  static StoreGammaBeta<C> store(const Launch& l) {
    return {l.output<C>(1), kCentred ? l.output<C>(2) : nullptr};
  }
};

template <bool kCentred>
Kernel make_wide_row_norm(const Operation& op, const NormShape& s) {
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    using Norm = RowNorm<kCentred>;
    Kernel kernel;
    kernel.run = [=](const Launch& l) {
      for_rows<C>(l, s.rows,
                  WideRowNorm<T, kCentred>{l.input<T>(0), l.input<C>(1), Norm::template beta<C>(l),
                                           l.output<T>(0), RowStatistics<C>(l.saved, s.rows),
                                           s.columns, static_cast<C>(s.epsilon)},
                  Norm::kName);
    };
    return kernel;
  });
}

template <bool kCentred>
Kernel make_row_norm(const Operation& op) {
  using Norm = RowNorm<kCentred>;
  const NormShape s = norm_shape(op, 0);
  Kernel kernel = make_wide_row_norm<kCentred>(op, s);
  for_floating(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    kernel.saved_bytes = static_cast<uint64_t>(3 * s.rows) * sizeof(C);
    with_team<T>(s.columns, [&]<int kTeam, int kPacks>() {
      constexpr int64_t kTeams = kBlock / kTeam;
      kernel.run = [=](const Launch& l) {
        if (s.rows == 0) return;
        const auto blocks =
            static_cast<uint32_t>(std::min<int64_t>(divide_up(s.rows, kTeams), 1 << 20));
        GPU_LAUNCH((row_norm_kernel<T, kTeam, kPacks, kCentred>), dim3(blocks), dim3(kBlock),
                   l.stream,
                   RowNormRows<T>{l.input<T>(0), l.input<C>(1), Norm::template beta<C>(l),
                                  l.output<T>(0), RowStatistics<C>(l.saved, s.rows), s.rows,
                                  s.columns, static_cast<C>(s.epsilon)});
        check_launch(Norm::kName);
      };
    });
  });
  const double bytes = 2 * bytes_of(op.input(0)) + Norm::kVectors * bytes_of(op.input(1)) +
                       static_cast<double>(kernel.saved_bytes);
  kernel.work.push_back({Norm::kName, s.rows > 0 ? bytes : 0});
  return kernel;
}

// dx by one kernel, dgamma and dbeta by column_sums, so that dy and x are read twice.
template <typename T, bool kCentred>
void run_wide_gradient(const Launch& l, const NormShape& s, const PostPlan& post) {
  using C = Compute<T>;
  const RowStatistics<C> of(l.saved, s.rows);
  const T *dy = l.input<T>(0), *x = l.input<T>(1);
  for_rows<C>(
      l, s.rows,
      WideGradient<T, kCentred>{dy, x, l.input<C>(2), l.output<T>(0), of, s.columns, post.bind(l)},
      RowNorm<kCentred>::kBackward);
  column_sums<C, 2>(l, s.rows, s.columns, static_cast<C*>(l.workspace),
                    WideGradientSums<T>(dy, x, of, s.columns),
                    RowNorm<kCentred>::template store<C>(l), RowNorm<kCentred>::kBackward);
}

// At most two blocks for each multiprocessor, so that partial sums are few.
inline int64_t gradient_blocks(const Properties& properties, int64_t rows, int64_t teams) {
  return std::clamp<int64_t>(divide_up(rows, teams), 1, 2 * properties.multiprocessors);
}

template <typename T, int kTeam, int kPacks, bool kCentred>
void run_gradient(const Launch& l, const NormShape& s, int64_t blocks, int32_t residual) {
  using C = Compute<T>;
  auto* const partial = static_cast<C*>(l.workspace);
  GPU_LAUNCH(
      (row_norm_gradient_kernel<T, kTeam, kPacks, kCentred>), dim3(static_cast<uint32_t>(blocks)),
      dim3(kBlock), l.stream,
      RowNormGradientRows<T>{l.input<T>(0), l.input<T>(1),
                             residual < 0 ? nullptr : l.input<T>(static_cast<uint32_t>(residual)),
                             l.input<C>(2), l.output<T>(0), RowStatistics<C>(l.saved, s.rows),
                             partial, s.rows, s.columns});
  check_launch(RowNorm<kCentred>::kBackward);
  finish_columns<C, 2>(l, s.columns, blocks, partial, Adds<T, 2>{},
                       RowNorm<kCentred>::template store<C>(l), RowNorm<kCentred>::kBackward);
}

template <typename T, bool kCentred>
Kernel make_wide_gradient(const Operation& op, const NormShape& s) {
  using C = Compute<T>;
  const PostPlan post(op);
  Kernel kernel;
  kernel.workspace_bytes = column_workspace<C>(op, s.rows, s.columns, 2);
  kernel.run = [=](const Launch& l) { run_wide_gradient<T, kCentred>(l, s, post); };
  const double x = bytes_of(op.input(1)), vector = bytes_of(op.input(2));
  const double saved = static_cast<double>(3 * s.rows) * sizeof(C);
  if (s.rows > 0)
    kernel.work.push_back({RowNorm<kCentred>::kBackward, 3 * x + vector + saved + post_bytes(op)});
  column_work(kernel.work, 2 * x + saved, RowNorm<kCentred>::kVectors * vector,
              kernel.workspace_bytes);
  return kernel;
}

template <bool kCentred>
Kernel make_row_norm_backward(const Properties& properties, const Operation& op) {
  const NormShape s = norm_shape(op, 1);
  // Post-operations other than one residual add are left to the kernels for wide rows.
  const bool residual = op.post_op_count() == 1 && op.post_op(0).kind == RT_POST_RESIDUAL_ADD;
  const bool plain = residual || op.post_op_count() == 0;
  const int32_t operand = residual ? op.post_op(0).operand : -1;
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    Kernel kernel = make_wide_gradient<T, kCentred>(op, s);
    kernel.reads_saved = static_cast<uint64_t>(3 * s.rows) * sizeof(C);
    if (!plain || s.rows == 0) return kernel;
    with_team<T>(s.columns, [&]<int kTeam, int kPacks>() {
      const int64_t blocks = gradient_blocks(properties, s.rows, kBlock / kTeam);
      kernel.workspace_bytes = static_cast<uint64_t>(blocks * 2 * s.columns) * sizeof(C);
      kernel.run = [=](const Launch& l) {
        run_gradient<T, kTeam, kPacks, kCentred>(l, s, blocks, operand);
      };
      const double partial = static_cast<double>(kernel.workspace_bytes);
      const double vector = bytes_of(op.input(2));
      kernel.work = {{RowNorm<kCentred>::kBackward, 3 * bytes_of(op.input(1)) + vector + partial +
                                                        static_cast<double>(kernel.reads_saved) +
                                                        post_bytes(op)},
                     {"sums of chunks", partial + RowNorm<kCentred>::kVectors * vector}};
    });
    return kernel;
  });
}

}  // namespace

Kernel make_layer_norm(const Properties&, const Operation& op) { return make_row_norm<true>(op); }
Kernel make_layer_norm_backward(const Properties& properties, const Operation& op) {
  return make_row_norm_backward<true>(properties, op);
}

Kernel make_rms_norm(const Properties&, const Operation& op) { return make_row_norm<false>(op); }
Kernel make_rms_norm_backward(const Properties& properties, const Operation& op) {
  return make_row_norm_backward<false>(properties, op);
}

}  // namespace backends::gpu
