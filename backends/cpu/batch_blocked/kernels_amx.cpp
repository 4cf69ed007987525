// Convolutions by the matrix unit. In this layout a pixel of a sample block is a matrix, [channel]
// [sample], and so is what the unit computes for it: no number has to change its lane, except in
// the weight gradient, which sums over samples.
#include <immintrin.h>

#include <utility>

#include "backends/cpu/batch_blocked/gradient_kernels.h"
#include "backends/cpu/batch_blocked/matrix_unit_kernels.h"

namespace backends::cpu::batch_blocked {
namespace {
#define BB_LANES 16
// Each file uses names of the ones before it.
// clang-format off
#include "backends/cpu/batch_blocked/vector_kernels.inc"
#include "backends/cpu/transpose.inc"
#include "backends/cpu/matrix_unit.inc"
// clang-format on

// Larger numbers are left to the other algorithms, so that what the parts of tiny numbers lose,
// 2^-154, stays among the denormal numbers when it is multiplied.
constexpr float kLargest = 0x1p20f;

// Bytes of kMatrixChannels channels of two sample blocks.
constexpr int64_t kPairBytes = kStepBytes;

// Watches whether numbers are at most kLargest. As integers, the bits of positive numbers are in
// the order of the numbers, with the infinite one and those that are none behind.
struct Largest {
  U largest{};
  MATRIX_INLINE void add(V x) {
    const U u = (U)x & 0x7FFFFFFF;
    largest = u > largest ? u : largest;
  }
  MATRIX_INLINE bool good() const {
    for (int i = 0; i < kLanes; ++i) {
      if (largest[i] > bits(kLargest)) return false;
    }
    return true;
  }
};

// The first `samples` lanes.
MATRIX_INLINE __mmask16 first_lanes(int64_t samples) {
  return samples >= kBlock ? 0xFFFF : (__mmask16)((1u << (samples < 0 ? 0 : samples)) - 1);
}

// Channel `c` of a pixel, with zeros in the other lanes, behind the last channel, and if there is
// no pixel.
MATRIX_INLINE V channel_of(const float* pixel, int64_t c, int64_t channels, __mmask16 lanes) {
  if (pixel == nullptr || c >= channels) return V{};
  return (V)_mm512_maskz_load_ps(lanes, pixel + c * kBlock);
}

bool pack_pixels(const float* pixels, int64_t channels, int64_t count, int32_t samples,
                 char* packed) {
  const __mmask16 lanes = first_lanes(samples);
  Largest range;
  for (int64_t pixel = 0; pixel < count; ++pixel, pixels += channels * kBlock) {
    for (int64_t first = 0; first < channels; first += kDepth, packed += kPackedPixel) {
      for (int64_t pair = 0; pair < kSide; ++pair) {
        const int64_t c = first + 2 * pair;
        const V even = channel_of(pixels, c, channels, lanes);
        const V odd = channel_of(pixels, c + 1, channels, lanes);
        range.add(even);
        range.add(odd);
        const Split x = split(even * kScale), y = split(odd * kScale);
        MATRIX_UNROLL for (int p = 0; p < kParts; ++p) {
          put(packed + p * kTileBytes + pair * 64, in_turn(x.part[p], y.part[p]));
        }
      }
    }
  }
  return range.good();
}

bool pack_outputs(const PixelPair& dy, float* bias, char* packed) {
  const __mmask16 lanes[2] = {first_lanes(dy.samples), first_lanes(dy.samples - kBlock)};
  Largest range;
  for (int64_t first = 0; first < dy.channels; first += kMatrixChannels, packed += kPairBytes) {
    for (int64_t i = 0; i < kMatrixChannels; ++i) {
      const int64_t c = first + i;
      const V a = channel_of(dy.first, c, dy.channels, lanes[0]);
      const V b = channel_of(dy.second, c, dy.channels, lanes[1]);
      range.add(a);
      range.add(b);
      if (bias != nullptr && c < dy.channels) {
        store(bias + c * kBlock, load(bias + c * kBlock) + (a + b));
      }
      const Split x = split(a * kScale), y = split(b * kScale);
      MATRIX_UNROLL for (int p = 0; p < kParts; ++p) {
        put(packed + 2 * p * kTileBytes + i * 64, one_after_other(x.part[p], y.part[p]));
      }
    }
  }
  return range.good();
}

bool pack_inputs(const PixelPair& x, char* packed) {
  Largest range;
  for (int64_t first = 0; first < x.channels; first += kSide) {
    char* const to = packed + first / kDepth * kPairBytes + first / kSide % 2 * kTileBytes;
    for (int block = 0; block < 2; ++block) {
      const __mmask16 lanes = first_lanes(x.samples - block * kBlock);
      V square[kLanes];
      MATRIX_UNROLL for (int i = 0; i < kLanes; ++i) {
        square[i] = channel_of(block == 0 ? x.first : x.second, first + i, x.channels, lanes);
        range.add(square[i]);
      }
      transpose(square);
      MATRIX_UNROLL for (int i = 0; i < kLanes; i += 2) {
        const Split even = split(square[i] * kScale), odd = split(square[i + 1] * kScale);
        MATRIX_UNROLL for (int p = 0; p < kParts; ++p) {
          put(to + 2 * p * kTileBytes + (block * kLanes + i) * 32,
              in_turn(even.part[p], odd.part[p]));
        }
      }
    }
  }
  const int64_t tiles = (x.channels + kSide - 1) / kSide;
  if (tiles % 2 != 0) {  // the last step has no second tile
    char* const to = packed + tiles / 2 * kPairBytes + kTileBytes;
    for (int p = 0; p < kParts; ++p) {
      for (int i = 0; i < kSide; ++i) put(to + 2 * p * kTileBytes + i * 64, I{});
    }
  }
  return range.good();
}

// Stores one hardware tile, [output channel][sample], with the post-operations.
MATRIX_INLINE void store_channels(const MatrixTile& tile, const float (&sums)[kSide][kBlock],
                                  int pixel, int half) {
  const int first = half * kSide;
  const int64_t at = static_cast<int64_t>(tile.pixels->y[pixel]) * kBlock + first * kBlock;
  if (tile.channels >= first + kSide) {
    V acc[1][kSide];
    MATRIX_UNROLL for (int i = 0; i < kSide; ++i) acc[0][i] = load(sums[i]) * kUnscale;
    for (int i = 0; i < tile.post->count; ++i) {
      const PostOp& op = tile.post->ops[i];
      const float* operand[1] = {op.operand + tile.y_offset + at};
      apply<1, kSide>(op, acc, operand, tile.channel + first);
    }
    MATRIX_UNROLL for (int i = 0; i < kSide; ++i) store(tile.y + at + i * kBlock, acc[0][i]);
    return;
  }
  for (int channel = first; channel < tile.channels; ++channel) {
    const int64_t here = at + (channel - first) * kBlock;
    V acc[1][1] = {{load(sums[channel - first]) * kUnscale}};
    for (int i = 0; i < tile.post->count; ++i) {
      const PostOp& op = tile.post->ops[i];
      const float* operand[1] = {op.operand + tile.y_offset + here};
      apply<1, 1>(op, acc, operand, tile.channel + channel);
    }
    store(tile.y + here, acc[0][0]);
  }
}

void convolve(const MatrixTile& tile) {
  const PixelTile& pixels = *tile.pixels;
  const bool two = pixels.count > 1;
  clear();
  const Run* const end = tile.runs + pixels.first_run + pixels.run_count;
  for (const Run* run = tile.runs + pixels.first_run; run != end; ++run) {
    const char* const x = tile.x + (pixels.x[0] + run->x) * kPackedPixel;
    const char* const w = tile.w + run->w * kPackedWeights;
    Tiles images{x, two ? tile.x + (pixels.x[1] + run->x) * kPackedPixel : x, kTileBytes};
    Tiles weights{w, w + kTileBytes, 2 * kTileBytes};
    for (int32_t i = 0; i < run->length; ++i) {
      multiply_step(weights, images);
      weights.advance(kPackedWeights);
      images.advance(kPackedPixel);
    }
  }
  alignas(64) float sums[4][kSide][kBlock];
  _tile_stored(0, sums[0], 64);
  _tile_stored(1, sums[1], 64);
  _tile_stored(2, sums[2], 64);
  _tile_stored(3, sums[3], 64);
  for (int half = 0; half < 2; ++half) {
    store_channels(tile, sums[2 * half], 0, half);
    if (two) store_channels(tile, sums[2 * half + 1], 1, half);
  }
}

void add_products(const GradientTile& tile) {
  constexpr int64_t kRowBytes = kMatrixChannels * 4;
  float* const sums = tile.sums;
  float *const right = sums + kSide, *const below = sums + kSide * kMatrixChannels;
  if (tile.add) {
    _tile_loadd(0, sums, kRowBytes);
    _tile_loadd(1, right, kRowBytes);
    _tile_loadd(2, below, kRowBytes);
    _tile_loadd(3, below + kSide, kRowBytes);
  } else {
    clear();
  }
  for (int64_t row = 0; row < tile.rows; ++row) {
    Tiles dy{tile.dy[row], tile.dy[row] + kTileBytes, 2 * kTileBytes};
    Tiles x{tile.x[row], tile.x[row] + kTileBytes, 2 * kTileBytes};
    for (int64_t i = 0; i < tile.columns; ++i) {
      multiply_step(dy, x);
      dy.advance(tile.dy_pixel);
      x.advance(tile.x_pixel);
    }
  }
  _tile_stored(0, sums, kRowBytes);
  _tile_stored(1, right, kRowBytes);
  _tile_stored(2, below, kRowBytes);
  _tile_stored(3, below + kSide, kRowBytes);
}

}  // namespace

extern const MatrixUnitKernels kAmxKernels;
const MatrixUnitKernels kAmxKernels = {begin, end, pack_pixels, convolve};

extern const GradientKernels kAmxGradientKernels;
const GradientKernels kAmxGradientKernels = {
    "amx_bf16x3", kMatrixChannels, kMatrixChannels, kPairBytes,   kPairBytes, 540, 10, begin,
    end,          pack_outputs,    pack_inputs,     add_products, kUnscale};

}  // namespace backends::cpu::batch_blocked
