// Products in float32 by the matrix unit of newer Intel processors (AMX), which multiplies bfloat16
// and adds in float32 (matrix_unit.inc says how).
#include <immintrin.h>

#include <utility>

#include "backends/cpu/products/kernels.h"

namespace backends::cpu::products {
namespace {
#define LANES 16
// matrix_unit.inc uses names of registers.inc.
// clang-format off
#include "backends/cpu/products/registers.inc"
#include "backends/cpu/matrix_unit.inc"
// clang-format on

constexpr int kRows = 2 * kSide, kColumns = 2 * kSide;
// The numbers that are multiplied exactly enough, beside 0; see kScale.
constexpr float kSmallest = 0x1p-130f, kLargest = 0x1p27f;

// Watches whether numbers are 0 or from kSmallest to kLargest. As integers, the bits of positive
// numbers are in the order of the numbers, with the infinite one and those that are none behind.
struct Range {
  U largest{}, smallest = ~U{};

  PRODUCTS_INLINE void add(V x) {
    const U u = (U)x & 0x7FFFFFFF, before = u - 1;  // 0 becomes the largest
    largest = u > largest ? u : largest;
    smallest = before < smallest ? before : smallest;
  }
  PRODUCTS_INLINE bool good() const {
    for (int i = 0; i < kLanes; ++i) {
      if (largest[i] > bits(kLargest) || smallest[i] < bits(kSmallest) - 1) return false;
    }
    return true;
  }
};

// Fills square[i][j] = m(i, j) for i < rows and j < columns, and zeros elsewhere. `stored_by_rows`:
// the columns of m are 1 apart.
PRODUCTS_INLINE void read_square(const Matrix& m, bool stored_by_rows, int64_t rows,
                                 int64_t columns, V (&square)[kLanes]) {
  const int64_t lines = stored_by_rows ? rows : columns, length = stored_by_rows ? columns : rows;
  const int64_t step = stored_by_rows ? m.row : m.column;
  const __mmask16 mask =
      length >= kLanes ? 0xFFFF : (__mmask16)((1u << (length < 0 ? 0 : length)) - 1);
  PRODUCTS_UNROLL for (int i = 0; i < kLanes; ++i) {
    square[i] = i < lines ? (V)_mm512_maskz_loadu_ps(mask, m.data + i * step) : V{};
  }
  if (!stored_by_rows) transpose(square);
}

bool pack_left(const Matrix& a, int64_t rows, int64_t depth, void* packed) {
  const bool by_rows = a.column == 1;
  auto* to = static_cast<char*>(packed);
  Range range;
  for (int64_t k = 0; k < depth; k += kDepth, to += kStepBytes) {
    for (int64_t tile = 0; tile < 2; ++tile) {
      V first[kLanes], second[kLanes];
      const int64_t here = rows - tile * kSide;
      const Matrix from = a.at(tile * kSide, k);
      read_square(from, by_rows, here, depth - k, first);
      read_square(from.at(0, kSide), by_rows, here, depth - k - kSide, second);
      PRODUCTS_UNROLL for (int i = 0; i < kLanes; ++i) {
        range.add(first[i]);
        range.add(second[i]);
        const Split x = split(first[i] * kScale), y = split(second[i] * kScale);
        PRODUCTS_UNROLL for (int p = 0; p < kParts; ++p) {
          put(to + (2 * p + tile) * kTileBytes + i * 64, one_after_other(x.part[p], y.part[p]));
        }
      }
    }
  }
  return range.good();
}

bool pack_right(const Matrix& b, int64_t depth, int64_t columns, void* packed) {
  const bool by_rows = b.column == 1;
  auto* to = static_cast<char*>(packed);
  Range range;
  for (int64_t k = 0; k < depth; k += kDepth, to += kStepBytes) {
    for (int64_t tile = 0; tile < 2; ++tile) {
      PRODUCTS_UNROLL for (int half = 0; half < 2; ++half) {
        V square[kLanes];
        read_square(b.at(k + half * kSide, tile * kSide), by_rows, depth - k - half * kSide,
                    columns - tile * kSide, square);
        PRODUCTS_UNROLL for (int i = 0; i < kLanes; i += 2) {
          range.add(square[i]);
          range.add(square[i + 1]);
          const Split x = split(square[i] * kScale), y = split(square[i + 1] * kScale);
          PRODUCTS_UNROLL for (int p = 0; p < kParts; ++p) {
            put(to + (2 * p + tile) * kTileBytes + (half * kSide + i) * 32,
                in_turn(x.part[p], y.part[p]));
          }
        }
      }
    }
  }
  return range.good();
}

// Writes the accumulators to the result, or adds them to it.
template <typename AnyTile>
void finish(const AnyTile& tile) {
  alignas(64) float sum[kRows][kColumns];
  _tile_stored(0, &sum[0][0], kColumns * 4);
  _tile_stored(1, &sum[0][kSide], kColumns * 4);
  _tile_stored(2, &sum[kSide][0], kColumns * 4);
  _tile_stored(3, &sum[kSide][kSide], kColumns * 4);
  const uint32_t mask = tile.columns >= kColumns ? ~0u : (1u << tile.columns) - 1;
  const __mmask16 masks[2] = {(__mmask16)mask, (__mmask16)(mask >> kSide)};
  float* c = tile.c;
  for (int64_t r = 0; r < tile.rows; ++r, c += tile.c_row) {
    PRODUCTS_UNROLL for (int w = 0; w < 2; ++w) {
      V value = load(&sum[r][w * kSide]) * kUnscale;
      if (tile.add) value += (V)_mm512_maskz_loadu_ps(masks[w], c + w * kSide);
      _mm512_mask_storeu_ps(c + w * kSide, masks[w], (__m512)value);
    }
  }
}

template <int kLines>
void multiply_ahead(const Tile& tile) {
  clear();
  Ahead<kLines> ahead{tile.ahead};
  int64_t row = 0;
  const auto* left = static_cast<const char*>(tile.left);
  const auto* right = static_cast<const char*>(tile.right);
  for (int64_t k = 0; k < tile.depth; k += kDepth, left += kStepBytes, right += kStepBytes) {
    multiply_step<2>({left, left + kTileBytes, 2 * kTileBytes},
                     {right, right + kTileBytes, 2 * kTileBytes}, ahead);
    // Lines of c arrive in the second-level cache while the products are made.
    for (const int64_t end = row + kDepth * kRows / tile.depth + 1; row < end && row < tile.rows;
         ++row) {
      _mm_prefetch(tile.c + row * tile.c_row, _MM_HINT_T1);
      _mm_prefetch(tile.c + row * tile.c_row + kSide, _MM_HINT_T1);
    }
  }
  finish(tile);
}

void multiply(const Tile& tile) {
  if (tile.lines == 0) return multiply_ahead<0>(tile);
  if (tile.lines == 1) return multiply_ahead<1>(tile);
  tile.lines == 2 ? multiply_ahead<2>(tile) : multiply_ahead<4>(tile);
}

constexpr int kPieceBytes = kParts * 64;  // of a split pixel: [part][32]

bool split_pixel(const float* pixel, int64_t channels, void* to) {
  Range range;
  auto* out = static_cast<char*>(to);
  for (int64_t c = 0; c < channels; c += kDepth, out += kPieceBytes) {
    const int64_t here = channels - c;
    const __mmask32 mask = here >= kDepth ? ~0u : (1u << here) - 1;
    const V first = (V)_mm512_maskz_loadu_ps((__mmask16)mask, pixel + c),
            second = (V)_mm512_maskz_loadu_ps((__mmask16)(mask >> kSide), pixel + c + kSide);
    range.add(first);
    range.add(second);
    const Split x = split(first * kScale), y = split(second * kScale);
    PRODUCTS_UNROLL for (int p = 0; p < kParts; ++p) {
      put(out + p * 64, one_after_other(x.part[p], y.part[p]));
    }
  }
  return range.good();
}

void gather(const char* const* pieces, int64_t rows, int64_t steps, void* packed) {
  auto* to = static_cast<char*>(packed);
  for (int64_t s = 0; s < steps; ++s, to += kStepBytes) {
    for (int64_t r = 0; r < rows; ++r) {
      const char* from = pieces[r] + s * kPieceBytes;
      char* out = to + r / kSide * kTileBytes + r % kSide * 64;
      PRODUCTS_UNROLL for (int p = 0; p < kParts; ++p) {
        put(out + 2 * p * kTileBytes, (I)_mm512_load_si512(from + p * 64));
      }
    }
  }
}

void join(const void* packed_right, int64_t steps, float* to) {
  const auto* from = static_cast<const char*>(packed_right);
  for (int64_t s = 0; s < steps; ++s, from += kStepBytes, to += kDepth * kColumns) {
    for (int tile = 0; tile < 2; ++tile) {
      for (int i = 0; i < kSide; ++i) {
        V even{}, odd{};
        PRODUCTS_UNROLL for (int p = 0; p < kParts; ++p) {
          const I pair = (I)_mm512_load_si512(from + (2 * p + tile) * kTileBytes + i * 64);
          even += (V)((U)pair << 16);
          odd += (V)(pair & (int32_t)0xFFFF0000);
        }
        store(to + 2 * i * kColumns + tile * kSide, even * (1 / kScale));
        store(to + (2 * i + 1) * kColumns + tile * kSide, odd * (1 / kScale));
      }
    }
  }
}

template <int kTiles, int kLines>
void multiply_taps(const SplitTile& tile) {
  clear();
  const auto* right = static_cast<const char*>(tile.right);
  Ahead<kLines> ahead{tile.ahead};
  for (int64_t t = 0; t < tile.tap_count; ++t) {
    Tiles left{tile.left[0] + tile.taps[t], tile.left[1] + tile.taps[t], tile.part_bytes,
               tile.row_bytes};
    for (int64_t s = 0; s < tile.steps; ++s, right += kStepBytes) {
      multiply_step<kTiles>(left, {right, right + kTileBytes, 2 * kTileBytes}, ahead);
      left.advance(tile.step_bytes);
    }
  }
  finish(tile);
}

template <int kTiles>
void multiply_lines(const SplitTile& tile) {
  if (tile.lines == 0) return multiply_taps<kTiles, 0>(tile);
  if (tile.lines == 1) return multiply_taps<kTiles, 1>(tile);
  tile.lines == 2 ? multiply_taps<kTiles, 2>(tile) : multiply_taps<kTiles, 4>(tile);
}

void multiply_split(const SplitTile& tile) {
  tile.rows > kSide ? multiply_lines<2>(tile) : multiply_lines<1>(tile);
}

}  // namespace

extern const KernelTable kAmxKernels;
const KernelTable kAmxKernels = {"amx_bf16x3", kRows, kColumns, kDepth,    2 * kParts, 256,     512,
                                 1024,         begin, end,      pack_left, pack_right, multiply};

extern const SplitKernels kAmxSplitKernels;
const SplitKernels kAmxSplitKernels = {&kAmxKernels, kDepth, kPieceBytes,   split_pixel,
                                       gather,       join,   multiply_split};

}  // namespace backends::cpu::products
