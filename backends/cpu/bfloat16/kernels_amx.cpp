// The kernels of matrix_unit.h. A tile register holds 16 rows of 64 bytes: of the left operand 32
// neighbours in depth, of the right operand 16 columns of pairs of neighbours in depth.
#include <immintrin.h>

#include <utility>

#include "backends/cpu/bfloat16/matrix_unit.h"

namespace backends::cpu::bfloat16 {
namespace {

constexpr int kLanes = 16;
typedef float V __attribute__((vector_size(kLanes * 4)));
// matrix_unit_tiles.inc and transpose.inc need the names above.
#include "backends/cpu/matrix_unit_tiles.inc"
#include "backends/cpu/transpose.inc"

#define BFLOAT16_INLINE inline __attribute__((always_inline))
#define BFLOAT16_UNROLL _Pragma("GCC unroll 16")

constexpr int64_t kSide = 16;
constexpr int64_t kRegisterBytes = 1024;

// A mask of the first `count` of 32 elements.
BFLOAT16_INLINE __mmask32 first(int64_t count) {
  return count >= 32 ? ~__mmask32{0} : count <= 0 ? 0 : (__mmask32{1} << count) - 1;
}

BFLOAT16_INLINE __m512i load(const uint16_t* from, __mmask32 mask) {
  return _mm512_maskz_loadu_epi16(mask, from);
}

BFLOAT16_INLINE void put(char* to, __m512i v) { _mm512_store_si512(to, v); }

// Elements of two rows in turn: those of the first or of the last 16 columns.
BFLOAT16_INLINE __m512i in_turn(__m512i even, __m512i odd, bool last) {
  alignas(64) static constexpr uint16_t kOrder[2][32] = {
      {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
       8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47},
      {16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55,
       24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63}};
  return _mm512_permutex2var_epi16(even, _mm512_load_si512(kOrder[last ? 1 : 0]), odd);
}

// Transposes both registers of each of `steps` steps of a packed tile, as squares of pairs.
BFLOAT16_INLINE void transpose_steps(int64_t steps, char* packed) {
  for (int64_t r = 0; r < 2 * steps; ++r, packed += kRegisterBytes) {
    V square[kLanes];
    BFLOAT16_UNROLL for (int i = 0; i < kLanes; ++i) {
      square[i] = (V)_mm512_load_si512(packed + i * 64);
    }
    transpose(square);
    BFLOAT16_UNROLL for (int i = 0; i < kLanes; ++i) put(packed + i * 64, (__m512i)square[i]);
  }
}

// Packs lines as they are, line i of 32 elements as row i of its packed tile, or transposed.
void pack_lines(const uint16_t* data, int64_t stride, int64_t lines, int64_t depth, bool transposed,
                char* to) {
  constexpr int64_t kPiece = 8 * kDepthStep;  // of a tile, which fits the first-level cache
  const int64_t tile = packed_bytes(depth), piece = transposed ? kPiece : depth;
  for (int64_t line = 0; line < lines; line += kTileSide, to += tile) {
    for (int64_t begin = 0; begin < depth; begin += piece) {
      const int64_t end = begin + piece < depth ? begin + piece : depth;
      char* const packed = to + begin / kDepthStep * kStepBytes;
      for (int64_t i = 0; i < kTileSide; ++i) {
        const uint16_t* from = data + (line + i) * stride;
        char* row = packed + i * 64;
        for (int64_t k = begin; k < end; k += kDepthStep, row += kStepBytes) {
          put(row, load(from + k, line + i < lines ? first(depth - k) : 0));
        }
      }
      if (transposed) transpose_steps(packed_bytes(end - begin) / kStepBytes, packed);
    }
  }
}

// Packs pairs of lines along the depth, so that element j of lines k and k + 1 become neighbours,
// or the same transposed.
void pack_pairs(const uint16_t* data, int64_t stride, int64_t depth, int64_t width, bool transposed,
                char* to) {
  const int64_t tile = packed_bytes(depth);
  for (int64_t k = 0; k < depth; k += kDepthStep, to += kStepBytes) {
    for (int64_t p = 0; p < kSide; ++p) {
      const int64_t line = k + 2 * p;
      const uint16_t* from = data + line * stride;
      char* row = to + p * 64;
      for (int64_t j = 0; j < width; j += kTileSide, row += tile) {
        const __mmask32 mask = first(width - j);
        const __m512i even = load(from + j, line < depth ? mask : 0),
                      odd = load(from + stride + j, line + 1 < depth ? mask : 0);
        _mm_prefetch(from + j + kDepthStep * stride, _MM_HINT_T0);
        _mm_prefetch(from + j + (kDepthStep + 1) * stride, _MM_HINT_T0);
        put(row, in_turn(even, odd, false));
        put(row + kRegisterBytes, in_turn(even, odd, true));
      }
    }
    if (!transposed) continue;
    for (int64_t j = 0; j < width; j += kTileSide) transpose_steps(1, to + j / kTileSide * tile);
  }
}

void pack_left(const Matrix& a, int64_t rows, int64_t depth, void* packed) {
  auto* to = static_cast<char*>(packed);
  if (a.column == 1) return pack_lines(a.data, a.row, rows, depth, false, to);
  pack_pairs(a.data, a.column, depth, rows, true, to);
}

void pack_right(const Matrix& b, int64_t depth, int64_t columns, void* packed) {
  auto* to = static_cast<char*>(packed);
  if (b.column == 1) return pack_pairs(b.data, b.row, depth, columns, false, to);
  pack_lines(b.data, b.column, columns, depth, true, to);
}

// Registers 0 to 3 are accumulators (2 x 2), 4 and 5 belong to the left operand, 6 and 7 to the
// right one.
void multiply(const Tile& tile) {
  float *const c = tile.c, *const below = c + kSide * tile.c_row;
  const int64_t stride = tile.c_row * 4;
  if (tile.add) {
    _tile_loadd(0, c, stride);
    _tile_loadd(1, c + kSide, stride);
    _tile_loadd(2, below, stride);
    _tile_loadd(3, below + kSide, stride);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  const auto *a = static_cast<const char*>(tile.left), *b = static_cast<const char*>(tile.right);
  for (int64_t k = 0; k < tile.depth; k += kDepthStep, a += kStepBytes, b += kStepBytes) {
    _tile_loadd(6, b, 64);
    _tile_loadd(4, a, 64);
    _tile_loadd(5, a + kRegisterBytes, 64);
    _tile_loadd(7, b + kRegisterBytes, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, stride);
  _tile_stored(1, c + kSide, stride);
  _tile_stored(2, below, stride);
  _tile_stored(3, below + kSide, stride);
}

}  // namespace

extern const MatrixUnit kAmx;
const MatrixUnit kAmx = {begin, end, pack_left, pack_right, multiply};

}  // namespace backends::cpu::bfloat16
