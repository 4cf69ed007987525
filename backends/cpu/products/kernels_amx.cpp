// Products in float32 by the matrix unit of newer Intel processors (AMX), which multiplies bfloat16
// and adds in float32.
//
// A float has 24 significant bits and a bfloat16 has 8, so each float is the exact sum of three:
// x = high + middle + low. Of the nine products of the parts of two factors the six largest are
// computed; those left out are below 2^-23 of the product, as one rounding of float32 is. The unit
// takes denormal numbers as zero, so that the parts of small numbers would be lost; therefore
// packed numbers are multiplied by kScale.
#include <immintrin.h>

#include <utility>

#include "backends/cpu/products/kernels.h"

namespace backends::cpu::products {
namespace {
#define LANES 16
#include "backends/cpu/products/registers.inc"

constexpr int kSide =
    16;  // rows of a hardware tile, and its columns of float32 or of pairs of bfloat16
constexpr int kDepth = 2 * kSide;
constexpr int kRows = 2 * kSide, kColumns = 2 * kSide;
constexpr int kTileBytes = 1024;
constexpr int kParts = 3;                            // high, middle, low
constexpr int kStepBytes = kParts * 2 * kTileBytes;  // of kDepth steps: [part][2 tiles]

// The upper half of each element is a bfloat16.
struct Split {
  I part[kParts];
};

PRODUCTS_INLINE I rounded(V x) { return ((I)x + 0x8000) & (int32_t)0xFFFF0000; }

PRODUCTS_INLINE Split split(V x) {
  const I high = rounded(x);
  const V rest = x - (V)high;
  const I middle = rounded(rest);
  return {{high, middle, (I)(rest - (V)middle)}};
}

// With this factor all parts of a number from kSmallest to kLargest, and of 0, are normal numbers,
// and a sum of 2^16 products is finite.
constexpr float kScale = 0x1p28f;
constexpr float kSmallest = 0x1p-130f, kLargest = 0x1p27f;

typedef uint32_t U __attribute__((vector_size(kLanes * 4)));

PRODUCTS_INLINE uint32_t bits(float x) {
  uint32_t value;
  __builtin_memcpy(&value, &x, sizeof(value));
  return value;
}

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

// Two registers of bfloat16 in upper halves as one: first and second in turn, or first in the lower
// half.
PRODUCTS_INLINE I in_turn(I even, I odd) {
  return (I)((U)even >> 16) | (odd & (int32_t)0xFFFF0000);
}

PRODUCTS_INLINE I one_after_other(I first, I second) {
  alignas(64) static constexpr uint16_t kOdd[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21,
                                                    23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43,
                                                    45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
  return (I)_mm512_permutex2var_epi16((__m512i)first, _mm512_load_si512(kOdd), (__m512i)second);
}

PRODUCTS_INLINE void put(char* to, I v) { _mm512_store_si512(to, (__m512i)v); }

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

void begin() {
  struct alignas(64) Configuration {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  };
  static constexpr Configuration
      kConfiguration;  // static, so that no compiler takes its stores for dead
  _tile_loadconfig(&kConfiguration);
}

void end() { _tile_release(); }

// The intrinsics of tiles are statements, not functions, in some compilers. Registers 0 to 3 are
// accumulators (2 x 2), 4 and 5 belong to the left operand, 6 and 7 to the right one.
PRODUCTS_INLINE void clear() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}
PRODUCTS_INLINE void load_left(const char* step, int part) {
  _tile_loadd(4, step + 2 * part * kTileBytes, 64);
  _tile_loadd(5, step + (2 * part + 1) * kTileBytes, 64);
}
PRODUCTS_INLINE void load_right(const char* step, int part) {
  _tile_loadd(6, step + 2 * part * kTileBytes, 64);
  _tile_loadd(7, step + (2 * part + 1) * kTileBytes, 64);
}
PRODUCTS_INLINE void multiply_add() {
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
}

void multiply(const Tile& tile) {
  clear();
  int64_t row = 0;
  const auto* left = static_cast<const char*>(tile.left);
  const auto* right = static_cast<const char*>(tile.right);
  for (int64_t k = 0; k < tile.depth; k += kDepth, left += kStepBytes, right += kStepBytes) {
    load_left(left, 2);
    load_right(right, 0);
    multiply_add();
    load_left(left, 1);
    multiply_add();
    load_right(right, 1);
    multiply_add();
    load_left(left, 0);
    multiply_add();
    load_right(right, 2);
    multiply_add();
    load_right(right, 0);
    multiply_add();
    // Lines of c arrive in the second-level cache while the products are made.
    for (const int64_t end = row + kDepth * kRows / tile.depth + 1; row < end && row < tile.rows;
         ++row) {
      _mm_prefetch(tile.c + row * tile.c_row, _MM_HINT_T1);
      _mm_prefetch(tile.c + row * tile.c_row + kSide, _MM_HINT_T1);
    }
  }
  alignas(64) float sum[kRows][kColumns];
  _tile_stored(0, &sum[0][0], kColumns * 4);
  _tile_stored(1, &sum[0][kSide], kColumns * 4);
  _tile_stored(2, &sum[kSide][0], kColumns * 4);
  _tile_stored(3, &sum[kSide][kSide], kColumns * 4);
  constexpr float kUnscale = 1 / (kScale * kScale);
  for (int w = 0; w < 2; ++w) {
    const int64_t here = tile.columns - w * kSide;
    if (here <= 0) break;
    const __mmask16 mask = here >= kLanes ? 0xFFFF : (__mmask16)((1u << here) - 1);
    for (int64_t r = 0; r < tile.rows; ++r) {
      float* c = tile.c + r * tile.c_row + w * kSide;
      V value = load(&sum[r][w * kSide]) * kUnscale;
      if (tile.add) value += (V)_mm512_maskz_loadu_ps(mask, c);
      _mm512_mask_storeu_ps(c, mask, (__m512)value);
    }
  }
}

}  // namespace

extern const KernelTable kAmxKernels;
const KernelTable kAmxKernels = {"amx_bf16x3", kRows, kColumns, kDepth,    2 * kParts, 256,
                                 512,          begin, end,      pack_left, pack_right, multiply};

}  // namespace backends::cpu::products
