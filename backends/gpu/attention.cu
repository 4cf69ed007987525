// attention and its gradient, without a T x T matrix. A block of threads computes one row; it reads
// the keys (or queries) in chunks and keeps the softmax up to date (Dao et al., "FlashAttention",
// 2022). The forward saves log(sum of exp(scores)) of each row and head.
#include "backends/gpu/rows.h"

namespace backends::gpu {
namespace {

// The number of elements of the head dimension that one thread accumulates. With kBlock = 256
// threads, a head may have up to 1,024 elements.
constexpr int kMostEach = 4;

struct AttentionShape {
  int64_t n, t, c, heads, d;  // qkv [n,t,3c] of n samples with t positions; c = heads * d
  bool causal;
  int64_t rows() const { return n * heads * t; }
};

// The sample s, the head h and the position i of row (s * heads + h) * t + i.
struct Row {
  int64_t sample, head, position;
  GPU_DEVICE static Row of(int64_t row, const AttentionShape& s) {
    const int64_t line = row / s.t;
    return {line / s.heads, line % s.heads, row - line * s.t};
  }
  // The first column of this head in row `at` of a tensor [n,t,width]. `third` selects q, k or v in
  // qkv (0, 1, 2) and is 0 for other tensors.
  GPU_DEVICE int64_t in(const AttentionShape& s, int64_t at, int64_t width, int64_t third) const {
    return (sample * s.t + at) * width + third * s.c + head * s.d;
  }
};

template <typename T>
GPU_DEVICE Compute<T> dot(const T* a, const T* b, int64_t d) {
  Compute<T> sum = Compute<T>(0);
  for (int64_t i = 0; i < d; ++i)
    sum += static_cast<Compute<T>>(a[i]) * static_cast<Compute<T>>(b[i]);
  return sum;
}

template <typename T>
struct Attention {
  using C = Compute<T>;
  const T* qkv;
  T* y;
  C* log_sums;
  AttentionShape s;
  C scale;
  GPU_DEVICE void operator()(int64_t row, C* scratch) const {
    __shared__ C weights[kBlock];
    const Row at = Row::of(row, s);
    const int t = static_cast<int>(threadIdx.x);
    const T* q = qkv + at.in(s, at.position, 3 * s.c, 0);
    const int64_t keys = s.causal ? at.position + 1 : s.t;
    C largest = C(-INFINITY), sum = C(0), result[kMostEach] = {};
    for (int64_t j0 = 0; j0 < keys; j0 += kBlock) {
      const int64_t j = j0 + t;
      const C score = j < keys ? scale * dot(q, qkv + at.in(s, j, 3 * s.c, 1), s.d) : C(-INFINITY);
      const C next = Max::combine(largest, block_reduce<Max>(score, scratch));
      // If all scores so far are -infinity, their weights are 0 and not exp(-inf + inf) = NaN,
      // because a finite score may follow.
      const C base = next == C(-INFINITY) ? C(0) : next;
      const C fade = largest == next ? C(1) : exp_of(largest - base);
      weights[t] = j < keys ? exp_of(score - base) : C(0);
      sum = sum * fade + block_reduce<Sum>(weights[t], scratch);
      largest = next;
      const int64_t count = keys - j0 < kBlock ? keys - j0 : kBlock;
      for (int e = 0; e < kMostEach; ++e) {
        const int64_t column = t + e * kBlock;
        if (column >= s.d) break;
        C added = C(0);
        for (int64_t k = 0; k < count; ++k) {
          added += weights[k] * static_cast<C>(qkv[at.in(s, j0 + k, 3 * s.c, 2) + column]);
        }
        result[e] = result[e] * fade + added;
      }
      __syncthreads();
    }
    for (int e = 0; e < kMostEach && t + e * kBlock < s.d; ++e) {
      y[at.in(s, at.position, s.c, 0) + t + e * kBlock] = static_cast<T>(result[e] / sum);
    }
    if (t == 0) log_sums[row] = largest + log_of(sum);
  }
};

// delta = dy . y of each row and head, one thread per row.
template <typename T>
struct Delta {
  const T *dy, *y;
  Compute<T>* delta;
  AttentionShape s;
  GPU_DEVICE void operator()(int64_t row) const {
    const Row at = Row::of(row, s);
    const int64_t first = at.in(s, at.position, s.c, 0);
    delta[row] = dot(dy + first, y + first, s.d);
  }
};

// p_ij and ds_ij for query i and key j of one head.
template <typename T>
struct Pair {
  using C = Compute<T>;
  C p, ds;
  GPU_DEVICE static Pair of(const T* qkv, const T* dy, const C* log_sums, const C* delta,
                            const AttentionShape& s, C scale, const Row& at, int64_t i, int64_t j) {
    const int64_t row = (at.sample * s.heads + at.head) * s.t + i;
    const C score = scale * dot(qkv + at.in(s, i, 3 * s.c, 0), qkv + at.in(s, j, 3 * s.c, 1), s.d);
    const C p = exp_of(score - log_sums[row]);
    const C dp = dot(dy + at.in(s, i, s.c, 0), qkv + at.in(s, j, 3 * s.c, 2), s.d);
    return {p, p * (dp - delta[row]) * scale};
  }
};

// dq of one query: the sum of ds_ij k_j over the keys.
template <typename T>
struct QueryGradient {
  using C = Compute<T>;
  const T *qkv, *dy;
  const C *log_sums, *delta;
  T* dqkv;
  AttentionShape s;
  C scale;
  GPU_DEVICE void operator()(int64_t row, C* ds) const {
    const Row at = Row::of(row, s);
    const int t = static_cast<int>(threadIdx.x);
    const int64_t keys = s.causal ? at.position + 1 : s.t;
    C dq[kMostEach] = {};
    for (int64_t j0 = 0; j0 < keys; j0 += kBlock) {
      const int64_t count = keys - j0 < kBlock ? keys - j0 : kBlock;
      if (t < count)
        ds[t] = Pair<T>::of(qkv, dy, log_sums, delta, s, scale, at, at.position, j0 + t).ds;
      __syncthreads();
      for (int e = 0; e < kMostEach && t + e * kBlock < s.d; ++e) {
        for (int64_t k = 0; k < count; ++k) {
          dq[e] += ds[k] * static_cast<C>(qkv[at.in(s, j0 + k, 3 * s.c, 1) + t + e * kBlock]);
        }
      }
      __syncthreads();
    }
    for (int e = 0; e < kMostEach && t + e * kBlock < s.d; ++e) {
      dqkv[at.in(s, at.position, 3 * s.c, 0) + t + e * kBlock] = static_cast<T>(dq[e]);
    }
  }
};

// dk and dv of one key: the sums of ds_ij q_i and p_ij dy_i over the queries that see it.
template <typename T>
struct KeyGradient {
  using C = Compute<T>;
  const T *qkv, *dy;
  const C *log_sums, *delta;
  T* dqkv;
  AttentionShape s;
  C scale;
  GPU_DEVICE void operator()(int64_t row, C* ds) const {
    __shared__ C p[kBlock];
    const Row at = Row::of(row, s);
    const int t = static_cast<int>(threadIdx.x);
    const int64_t first = s.causal ? at.position : 0;
    C dk[kMostEach] = {}, dv[kMostEach] = {};
    for (int64_t i0 = first; i0 < s.t; i0 += kBlock) {
      const int64_t count = s.t - i0 < kBlock ? s.t - i0 : kBlock;
      if (t < count) {
        const auto pair = Pair<T>::of(qkv, dy, log_sums, delta, s, scale, at, i0 + t, at.position);
        ds[t] = pair.ds;
        p[t] = pair.p;
      }
      __syncthreads();
      for (int e = 0; e < kMostEach && t + e * kBlock < s.d; ++e) {
        for (int64_t k = 0; k < count; ++k) {
          dk[e] += ds[k] * static_cast<C>(qkv[at.in(s, i0 + k, 3 * s.c, 0) + t + e * kBlock]);
          dv[e] += p[k] * static_cast<C>(dy[at.in(s, i0 + k, s.c, 0) + t + e * kBlock]);
        }
      }
      __syncthreads();
    }
    for (int e = 0; e < kMostEach && t + e * kBlock < s.d; ++e) {
      dqkv[at.in(s, at.position, 3 * s.c, 1) + t + e * kBlock] = static_cast<T>(dk[e]);
      dqkv[at.in(s, at.position, 3 * s.c, 2) + t + e * kBlock] = static_cast<T>(dv[e]);
    }
  }
};

AttentionShape shape_of(const Operation& op, const rt_tensor_desc& y) {
  AttentionShape s{y.dims[0], y.dims[1],
                   y.dims[2], op.integer(RT_ATTR_HEADS),
                   0,         op.integer(RT_ATTR_CAUSAL, 0) != 0};
  s.d = s.c / s.heads;
  if (s.d > kMostEach * kBlock) {
    throw rt::sdk::Error(
        RT_ERROR_UNSUPPORTED,
        rt::sdk::format("%s: heads of %lld columns; at most %d, use more heads", op.desc().name,
                        static_cast<long long>(s.d), kMostEach * kBlock));
  }
  return s;
}

Kernel make_attention(const Properties&, const Operation& op) {
  const AttentionShape s = shape_of(op, op.output(0));
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    const C scale = static_cast<C>(1.0 / std::sqrt(static_cast<double>(s.d)));
    Kernel kernel;
    kernel.saved_bytes = static_cast<uint64_t>(s.rows()) * sizeof(C);
    kernel.run = [=](const Launch& l) {
      for_rows<C>(l, s.rows(),
                  Attention<T>{l.input<T>(0), l.output<T>(0), static_cast<C*>(l.saved), s, scale},
                  "attention");
    };
    return kernel;
  });
}

Kernel make_attention_backward(const Properties&, const Operation& op) {
  const AttentionShape s = shape_of(op, op.input(0));
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    const C scale = static_cast<C>(1.0 / std::sqrt(static_cast<double>(s.d)));
    Kernel kernel;
    kernel.reads_saved = static_cast<uint64_t>(s.rows()) * sizeof(C);
    kernel.workspace_bytes = static_cast<uint64_t>(s.rows()) * sizeof(C);
    kernel.run = [=](const Launch& l) {
      const T *dy = l.input<T>(0), *qkv = l.input<T>(1);
      auto* delta = static_cast<C*>(l.workspace);
      const C* log_sums = static_cast<const C*>(l.saved);
      for_each(l, s.rows(), Delta<T>{dy, l.input<T>(2), delta, s}, "attention_backward");
      for_rows<C>(l, s.rows(), QueryGradient<T>{qkv, dy, log_sums, delta, l.output<T>(0), s, scale},
                  "attention_backward");
      for_rows<C>(l, s.rows(), KeyGradient<T>{qkv, dy, log_sums, delta, l.output<T>(0), s, scale},
                  "attention_backward");
    };
    return kernel;
  });
}

constexpr Entry kEntries[] = {{RT_OP_ATTENTION, make_attention},
                              {RT_OP_ATTENTION_BACKWARD, make_attention_backward}};

}  // namespace

Family attention_family() { return {kEntries, std::size(kEntries)}; }

}  // namespace backends::gpu
