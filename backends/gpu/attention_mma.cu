// Attention by tensor cores. Each of the four warps of a block multiplies 16 outer rows with the
// inner rows, which lie in shared memory; while it does, the next inner rows are copied there.
#include "backends/gpu/attention_operands.h"
#include "backends/gpu/mma.h"

#if defined(BACKENDS_GPU_MMA)
#include "backends/gpu/attention_forward.h"
#include "backends/gpu/attention_key_gradient.h"
#include "backends/gpu/attention_query_gradient.h"
#endif

namespace backends::gpu {

#if defined(BACKENDS_GPU_MMA)
// T is a 16-bit type; a head has at most kWidth columns, a multiple of 16. Columns behind those of
// the head are zeros. `kOfSlice` is the number of inner rows of a slice, a multiple of 16.
template <typename T, int kWidth, int kOfSlice>
class MmaTiles {
 public:
  using Element = T;
  using C = float;
  static constexpr int kThreads = 128, kLanes = 4, kColumns = kWidth;
  static constexpr int kOuter = 64, kInner = kWidth <= 64 ? 64 : 32;
  static constexpr int kSlice = kOfSlice < kInner ? kOfSlice : kInner, kSlices = kInner / kSlice;
  static constexpr int kRows = 2, kScores = kSlice / 4, kResults = kWidth / 4;
  using Scores = float[kRows][kScores];
  using Result = float[kRows][kResults];
  // The eight threads that load the rows of a matrix of 8 x 8 elements touch all 32 banks, because
  // rows are 16 bytes longer than a multiple of 32 bytes.
  static constexpr int kStride = kWidth + 8;
  struct alignas(16) Shared {
    uint16_t rows[2][2][kInner][kStride];  // of two stages and two operands
  };
  // Outer rows as the left operand of products.
  struct Kept {
    uint32_t a[kWidth / 16][4];
  };

  GPU_DEVICE MmaTiles(Shared& shared, const AttentionOperands<T>& o, int)
      : rows_(&shared.rows[0][0][0][0]),
        by_vector_(o.by_vector),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32) {}

  // The outer row and the inner row of a slice, from the first ones on, of the thread's
  // s[r][k].
  GPU_DEVICE int row(int r) const { return warp_ * 16 + lane_ / 4 + r * 8; }
  GPU_DEVICE int score_column(int k) const { return k / 2 * 8 + lane_ % 4 * 2 + k % 2; }

  GPU_DEVICE Kept keep(const HeadRows<const T>& rows, int first) {
    fetch<kOuter>(rows_, rows, first);
    end_copies();
    await_copies<0>();
    __syncthreads();
    Kept kept;
    const uint16_t* from = rows_ + (warp_ * 16 + lane_ % 16) * kStride + lane_ / 16 * 8;
    GPU_UNROLL for (int step = 0; step < kWidth / 16; ++step) {
      load_matrices<false>(kept.a[step], from + step * 16);
    }
    __syncthreads();
    return kept;
  }

  // Calls body(i) for each tile of inner rows, which begin with row i.
  template <typename Body>
  GPU_DEVICE void walk(int begin, int end, const HeadRows<const T>& first,
                       const HeadRows<const T>& second, Body body) {
    if (begin >= end) return;
    int stage = 0;
    fetch_both(stage, first, second, begin);
    for (int i = begin; i < end; i += kInner) {
      if (i + kInner < end) {
        fetch_both(1 - stage, first, second, i + kInner);
        await_copies<1>();
      } else {
        await_copies<0>();
      }
      __syncthreads();
      inner_ = rows_ + stage * 2 * kInner * kStride;
      body(i);
      __syncthreads();
      stage = 1 - stage;
    }
  }

  // s = the outer rows times the transposed inner rows of a slice.
  GPU_DEVICE void scores(Scores& s, const Kept& outer, Inner operand, int slice) const {
    const uint16_t* from =
        slice_of(operand, slice) + (lane_ % 8 + lane_ / 16 * 8) * kStride + lane_ / 8 % 2 * 8;
    clear(s);
    GPU_UNROLL for (int step = 0; step < kWidth / 16; ++step) {
      GPU_UNROLL for (int i = 0; i < kSlice / 16; ++i) {
        uint32_t b[4];
        load_matrices<false>(b, from + i * 16 * kStride + step * 16);
        multiply(s, i, outer.a[step], b);
      }
    }
  }

  // result += weights times the inner rows of a slice.
  GPU_DEVICE void accumulate(Result& result, const Scores& weights, Inner operand,
                             int slice) const {
    const uint16_t* from = slice_of(operand, slice) + lane_ % 16 * kStride + lane_ / 16 * 8;
    GPU_UNROLL for (int i = 0; i < kSlice / 16; ++i) {
      const uint32_t a[4] = {pack<T>(weights[0][4 * i], weights[0][4 * i + 1]),
                             pack<T>(weights[1][4 * i], weights[1][4 * i + 1]),
                             pack<T>(weights[0][4 * i + 2], weights[0][4 * i + 3]),
                             pack<T>(weights[1][4 * i + 2], weights[1][4 * i + 3])};
      GPU_UNROLL for (int column = 0; column < kWidth / 16; ++column) {
        uint32_t b[4];
        load_matrices<true>(b, from + i * 16 * kStride + column * 16);
        multiply(result, column, a, b);
      }
    }
  }

  // Rounds the results and stores them from row `first` on, through shared memory.
  GPU_DEVICE void store(const HeadRows<T>& to, int first, const Result& result) {
    GPU_UNROLL for (int r = 0; r < kRows; ++r) {
      uint16_t* at = rows_ + row(r) * kStride + lane_ % 4 * 2;
      GPU_UNROLL for (int k = 0; k < kResults; k += 2) {
        *reinterpret_cast<uint32_t*>(at + k / 2 * 8) = pack<T>(result[r][k], result[r][k + 1]);
      }
    }
    __syncthreads();
    if (by_vector_) {
      each_vector<kOuter>([&](int row, int column) {
        if (first + row >= to.count || column >= to.columns) return;
        *reinterpret_cast<uint4*>(to.data + (first + row) * to.step + column) =
            *reinterpret_cast<const uint4*>(rows_ + row * kStride + column);
      });
    } else {
      store_elements(to, first);
    }
    __syncthreads();
  }

 private:
  GPU_DEVICE const uint16_t* slice_of(Inner operand, int slice) const {
    return inner_ + ((operand == kSecond ? kInner : 0) + slice * kSlice) * kStride;
  }
  // c[.][16 columns from 16 i on] += a b.
  template <int kCount>
  GPU_DEVICE static void multiply(float (&c)[kRows][kCount], int i, const uint32_t (&a)[4],
                                  const uint32_t (&b)[4]) {
    GPU_UNROLL for (int half = 0; half < 2; ++half) {
      const int k = 4 * i + 2 * half;
      multiply_fragments<T>(c[0][k], c[0][k + 1], c[1][k], c[1][k + 1], a, b[2 * half],
                            b[2 * half + 1]);
    }
  }
  // Calls f(row, column) in one thread for each 8 neighbouring elements of kCount rows.
  template <int kCount, typename Function>
  GPU_DEVICE static void each_vector(Function f) {
    constexpr int kVectors = kWidth / 8;
    GPU_UNROLL for (int i = 0; i < (kCount * kVectors + kThreads - 1) / kThreads; ++i) {
      const int v = static_cast<int>(threadIdx.x) + i * kThreads;
      if (v < kCount * kVectors) f(v / kVectors, v % kVectors * 8);
    }
  }
  // Begins to copy kCount rows; rows and columns that the head does not have become zeros.
  template <int kCount>
  GPU_DEVICE void fetch(uint16_t* to, const HeadRows<const T>& rows, int first) const {
    if (!by_vector_) return fetch_elements(to, rows, first, kCount);
    each_vector<kCount>([&](int row, int column) {
      const bool inside = first + row < rows.count && column < rows.columns;
      const int64_t from =
          lesser(first + row, rows.count - 1) * rows.step + (column < rows.columns ? column : 0);
      begin_copy(to + row * kStride + column, rows.data + from, inside);
    });
  }
  GPU_DEVICE void fetch_elements(uint16_t* to, const HeadRows<const T>& rows, int first,
                                 int count) const {
    GPU_ROLL for (int v = static_cast<int>(threadIdx.x); v < count * kWidth; v += kThreads) {
      const int row = v / kWidth, column = v % kWidth;
      const bool inside = first + row < rows.count && column < rows.columns;
      to[row * kStride + column] =
          inside ? rows.data[(first + row) * rows.step + column].bits : uint16_t{0};
    }
  }
  GPU_DEVICE void store_elements(const HeadRows<T>& to, int first) const {
    GPU_ROLL for (int v = static_cast<int>(threadIdx.x); v < kOuter * kWidth; v += kThreads) {
      const int row = v / kWidth, column = v % kWidth;
      if (first + row >= to.count || column >= to.columns) continue;
      to.data[(first + row) * to.step + column].bits = rows_[row * kStride + column];
    }
  }
  GPU_DEVICE void fetch_both(int stage, const HeadRows<const T>& first,
                             const HeadRows<const T>& second, int i) const {
    uint16_t* to = rows_ + stage * 2 * kInner * kStride;
    fetch<kInner>(to, first, i);
    fetch<kInner>(to + kInner * kStride, second, i);
    end_copies();
  }

  uint16_t* const rows_;
  const uint16_t* inner_ = nullptr;  // the tiles of both operands that the walk is at
  const bool by_vector_;
  const int warp_, lane_;
};

namespace {

// Inner rows of a slice. The forward keeps the score of a whole tile, so that it fades its sums
// seldom; the gradients have two scores and more sums to keep in registers.
constexpr int kForwardSlice = 64, kGradientSlice = 16;

template <typename T, int kWidth, bool kMasked>
AttentionLaunches<T> launches() {
  using Tiles = MmaTiles<T, kWidth, kForwardSlice>;
  using Narrow = MmaTiles<T, kWidth, kGradientSlice>;
  using Operands = AttentionOperands<T>;
  return {[](const Launch& l, const Operands& o) {
            launch_tiles<Tiles>(l, AttentionForward<Tiles, kMasked>{o}, "attention");
          },
          [](const Launch& l, const Operands& o) {
            launch_tiles<Narrow>(l, QueryGradient<Narrow, kMasked>{o}, "attention_backward");
          },
          [](const Launch& l, const Operands& o) {
            launch_tiles<Narrow>(l, KeyGradient<Narrow, kMasked>{o}, "attention_backward");
          },
          1};
}

template <typename T, bool kMasked>
AttentionLaunches<T> launches_for(int64_t d) {
  static_assert(kMostTensorColumns == 128);
  return d <= 32   ? launches<T, 32, kMasked>()
         : d <= 64 ? launches<T, 64, kMasked>()
         : d <= 96 ? launches<T, 96, kMasked>()
                   : launches<T, 128, kMasked>();
}

}  // namespace

template <typename T>
std::optional<AttentionLaunches<T>> mma_attention(int64_t d, bool masked) {
  if (d > kMostTensorColumns) return std::nullopt;
  return masked ? launches_for<T, true>(d) : launches_for<T, false>(d);
}
#else
template <typename T>
std::optional<AttentionLaunches<T>> mma_attention(int64_t, bool) {
  return std::nullopt;
}
#endif

template std::optional<AttentionLaunches<Float16>> mma_attention(int64_t, bool);
template std::optional<AttentionLaunches<BFloat16>> mma_attention(int64_t, bool);

}  // namespace backends::gpu
