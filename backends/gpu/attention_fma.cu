// Attention without tensor cores: float32 and float64, wide heads, and all types on AMD's devices.
// 16 x 16 threads multiply tiles in shared memory, each kEach x kEach elements of a product.
#include "backends/gpu/attention_forward.h"
#include "backends/gpu/attention_key_gradient.h"
#include "backends/gpu/attention_query_gradient.h"

namespace backends::gpu {
// A block computes kWidth columns of the results; the heads may have more, for which it computes
// the scores as well.
template <typename T, int kWidth>
class FmaTiles {
 public:
  using Element = T;
  using C = Compute<T>;
  static constexpr int kThreads = kBlock, kLanes = 16, kColumns = kWidth;
  static constexpr int kEach = sizeof(C) == 8 ? 2 : 4;
  static constexpr int kOuter = kLanes * kEach, kInner = kOuter, kSlice = kOuter, kSlices = 1;
  static constexpr int kParts = kWidth / kOuter;  // of the columns
  static constexpr int kRows = kEach, kScores = kEach, kResults = kParts * kEach;
  using Scores = C[kRows][kScores];
  using Result = C[kRows][kResults];
  static constexpr int kDepth = 32;                        // extent of a sum in shared memory
  static constexpr int kVector = 16 / int{sizeof(T)};      // elements of 16 bytes
  static constexpr int kStride = kOuter + 16 / sizeof(C);  // keeps rows aligned to 16 bytes
  struct alignas(16) Shared {
    C left[kDepth][kStride], right[kDepth][kStride];
    C weights[kInner][kStride];
  };
  struct Kept {
    HeadRows<const T> rows;
    int first;
  };

  GPU_DEVICE FmaTiles(Shared& shared, const AttentionOperands<T>& o, int column)
      : shared_(shared),
        column_(column),
        by_vector_(o.by_vector),
        row_(static_cast<int>(threadIdx.x) / kLanes * kEach),
        side_(static_cast<int>(threadIdx.x) % kLanes * kEach) {}

  // The outer row and the inner row of a slice, from the first ones on, of the thread's
  // s[r][k].
  GPU_DEVICE int row(int r) const { return row_ + r; }
  GPU_DEVICE int score_column(int k) const { return side_ + k; }

  GPU_DEVICE Kept keep(const HeadRows<const T>& rows, int first) { return {rows, first}; }

  // Calls body(i) for each tile of inner rows, which begin with row i.
  template <typename Body>
  GPU_DEVICE void walk(int begin, int end, const HeadRows<const T>& first,
                       const HeadRows<const T>& second, Body body) {
    for (int i = begin; i < end; i += kInner) {
      inner_[kFirst] = {first, i};
      inner_[kSecond] = {second, i};
      body(i);
    }
  }

  // s = the outer rows times the transposed inner rows.
  GPU_DEVICE void scores(Scores& s, const Kept& outer, Inner operand, int) {
    clear(s);
    for (int column = 0; column < outer.rows.columns; column += kDepth) {
      __syncthreads();
      load_turned(shared_.left, outer, column);
      load_turned(shared_.right, inner_[operand], column);
      __syncthreads();
      multiply<0>(s, &shared_.left[0][0]);
    }
  }

  // result += weights times the inner rows.
  GPU_DEVICE void accumulate(Result& result, const Scores& weights, Inner operand, int) {
    __syncthreads();
    GPU_UNROLL for (int k = 0; k < kScores; ++k) {
      GPU_UNROLL for (int r = 0; r < kRows; ++r) {
        shared_.weights[side_ + k][row_ + r] = weights[r][k];
      }
    }
    add_parts<0>(result, operand);
  }

  // Stores results from row `first` on.
  GPU_DEVICE void store(const HeadRows<T>& to, int first, const Result& result) const {
    struct alignas(kEach * sizeof(T)) Part {
      T of[kEach];
    };
    GPU_UNROLL for (int r = 0; r < kRows; ++r) {
      if (first + row(r) >= to.count) continue;
      T* at = to.data + (first + row(r)) * to.step;
      GPU_UNROLL for (int part = 0; part < kParts; ++part) {
        const int column = column_ + part * kOuter + side_;
        Part rounded;
        GPU_UNROLL for (int e = 0; e < kEach; ++e) {
          rounded.of[e] = static_cast<T>(result[r][part * kEach + e]);
        }
        if (by_vector_ && column < to.columns) {
          *reinterpret_cast<Part*>(at + column) = rounded;
        } else {
          GPU_UNROLL for (int e = 0; e < kEach; ++e) {
            if (column + e < to.columns) at[column + e] = rounded.of[e];
          }
        }
      }
    }
  }

 private:
  struct alignas(16) Vector {
    T of[kVector];
  };
  using Tile = C[kDepth][kStride];

  // Elements (row, column) to (row, column + kVector - 1), zeros outside the head.
  GPU_DEVICE Vector load(const HeadRows<const T>& rows, int row, int column) const {
    if (row >= rows.count || column >= rows.columns) return Vector{};
    const T* from = rows.data + row * rows.step + column;
    if (by_vector_) return *reinterpret_cast<const Vector*>(from);
    Vector v;
    GPU_UNROLL for (int e = 0; e < kVector; ++e) {
      v.of[e] = column + e < rows.columns ? from[e] : static_cast<T>(C(0));
    }
    return v;
  }
  // to[i][row] = element (first + row, column + i). A warp loads two vectors of each of 16 rows.
  GPU_DEVICE void load_turned(Tile& to, const Kept& from, int column) const {
    constexpr int kVectors = kDepth / kVector;
    for (int v = static_cast<int>(threadIdx.x); v < kOuter * kVectors; v += kThreads) {
      const int row = v % 16 + v / (16 * kVectors) * 16, i = v / 16 % kVectors * kVector;
      const Vector loaded = load(from.rows, from.first + row, column + i);
      GPU_UNROLL for (int e = 0; e < kVector; ++e) to[i + e][row] = static_cast<C>(loaded.of[e]);
    }
  }
  // to[i][k] = element (first + i, column + k).
  GPU_DEVICE void load_straight(Tile& to, const HeadRows<const T>& rows, int first,
                                int column) const {
    constexpr int kVectors = kOuter / kVector;
    for (int v = static_cast<int>(threadIdx.x); v < kDepth * kVectors; v += kThreads) {
      const int i = v / kVectors, k = v % kVectors * kVector;
      const Vector loaded = load(rows, first + i, column + k);
      GPU_UNROLL for (int e = 0; e < kVector; ++e) to[i][k + e] = static_cast<C>(loaded.of[e]);
    }
  }
  // sums[r][kAt + k] += the sum over i of left[i][row + r] right[i][side + k].
  template <int kAt, int kCount>
  GPU_DEVICE void multiply(C (&sums)[kRows][kCount], const C* left) const {
    GPU_UNROLL_BY_4 for (int i = 0; i < kDepth; ++i) {
      C a[kEach], b[kEach];
      GPU_UNROLL for (int e = 0; e < kEach; ++e) {
        a[e] = left[i * kStride + row_ + e];
        b[e] = shared_.right[i][side_ + e];
      }
      GPU_UNROLL for (int r = 0; r < kEach; ++r) {
        GPU_UNROLL for (int k = 0; k < kEach; ++k) sums[r][kAt + k] += a[r] * b[k];
      }
    }
  }
  // Adds the parts of the columns from number kPart on.
  template <int kPart>
  GPU_DEVICE void add_parts(Result& result, Inner operand) {
    if constexpr (kPart < kParts) {
      const int column = column_ + kPart * kOuter;
      if (column >= inner_[operand].rows.columns) return;
      for (int i = 0; i < kInner; i += kDepth) {
        __syncthreads();
        load_straight(shared_.right, inner_[operand].rows, inner_[operand].first + i, column);
        __syncthreads();
        multiply<kPart * kEach>(result, &shared_.weights[i][0]);
      }
      add_parts<kPart + 1>(result, operand);
    }
  }

  Shared& shared_;
  Kept inner_[2];  // the tiles that the walk is at
  const int column_;
  const bool by_vector_;
  const int row_, side_;
};

namespace {

template <typename T, int kWidth, bool kMasked>
AttentionLaunches<T> launches(int64_t times) {
  using Tiles = FmaTiles<T, kWidth>;
  using Operands = AttentionOperands<T>;
  return {[](const Launch& l, const Operands& o) {
            launch_tiles<Tiles>(l, AttentionForward<Tiles, kMasked>{o}, "attention");
          },
          [](const Launch& l, const Operands& o) {
            launch_tiles<Tiles>(l, QueryGradient<Tiles, kMasked>{o}, "attention_backward");
          },
          [](const Launch& l, const Operands& o) {
            launch_tiles<Tiles>(l, KeyGradient<Tiles, kMasked>{o}, "attention_backward");
          },
          times};
}

template <typename T, bool kMasked>
AttentionLaunches<T> launches_for(int64_t d) {
  // Narrower heads in 16 bits have tensor cores on NVIDIA's devices.
  if constexpr (!kNvidia || !kSixteenBit<T>) {
    if (d <= 64) return launches<T, 64, kMasked>(1);
    if (d <= 128) return launches<T, 128, kMasked>(1);
  }
  return launches<T, 256, kMasked>(divide_up(d, 256));
}

}  // namespace

template <typename T>
AttentionLaunches<T> fma_attention(int64_t d, bool masked) {
  return masked ? launches_for<T, true>(d) : launches_for<T, false>(d);
}

template AttentionLaunches<float> fma_attention(int64_t, bool);
template AttentionLaunches<double> fma_attention(int64_t, bool);
template AttentionLaunches<Float16> fma_attention(int64_t, bool);
template AttentionLaunches<BFloat16> fma_attention(int64_t, bool);

}  // namespace backends::gpu
