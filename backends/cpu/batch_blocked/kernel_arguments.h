// What the inner kernels of the batch-blocked layout work on: register tiles, windows, patches of
// one sample block. They never allocate and know nothing of threads. Offsets count floats unless
// said otherwise.
#ifndef BACKENDS_CPU_BATCH_BLOCKED_KERNEL_ARGUMENTS_H_
#define BACKENDS_CPU_BATCH_BLOCKED_KERNEL_ARGUMENTS_H_

#include <cstdint>

namespace backends::cpu::batch_blocked {

// Samples in a block: the innermost dimension of the layout, one AVX-512 register of float32.
constexpr int kBlock = 16;

enum class Post : int32_t {
  kBias,
  kRelu,
  kResidualAdd,
  kReluBackward,
  kTanhBackward,
  kSigmoidBackward
};

// `operand`: bias [C]; residual and saved operand: blocked like the output, at the same offset;
// else null.
struct PostOp {
  Post kind;
  const float* operand;
};

constexpr int kMaxPostOps = 4;
struct PostOps {
  int32_t count = 0;
  PostOp ops[kMaxPostOps] = {};
};

// Taps that are contiguous in the input and in the packed weights. `x`: vectors from the pixel's
// base; `w`: rows of the packed weights; `length`: channels in all.
struct Run {
  int32_t x, w, length;
};

constexpr int kMaxTilePixels = 8;
// Output pixels which see the same runs. Offsets in vectors.
struct PixelTile {
  int32_t first_run, run_count, count;
  int32_t x[kMaxTilePixels], y[kMaxTilePixels];
};

// A register tile of a convolution: PixelTile.count pixels times `width` output channels.
struct ConvTile {
  const float* x;  // sample block of the input
  const float* w;  // packed weights of this channel tile: [tap][input channel][width]
  float* y;        // sample block of the output, at the tile's first channel
  const Run* runs;
  const PixelTile* pixels;
  const PostOps* post;
  int64_t y_offset;  // of `y` from the beginning of the tensor, for operands of post-operations
  int32_t channel;   // first output channel of the tile
  int32_t channels;  // how many of the tile's channels exist
};
using ConvTileKernel = void (*)(const ConvTile&);

struct ConvKernel {
  int32_t width;       // output channels of the tile
  int32_t max_pixels;  // kernels[0..max_pixels-1]: for 1..max_pixels pixels
  ConvTileKernel kernels[kMaxTilePixels];
};

// A register tile of a weight gradient, over the output rows [row_begin, row_end) of one sample
// block: acc[output][row][column][input], `rows` x `columns` of the filter.
struct WeightTile {
  const float* x;            // sample block, at the tile's first input channel
  const float* dy;           // sample block, at the tile's first output channel
  float* acc;                // [outputs][rows][columns][inputs][kBlock], added to
  float* bias;               // [outputs][kBlock], added to; may be null
  const int32_t* lane_mask;  // [kBlock] of 0 or -1; null: all lanes are samples
  int32_t row_begin, row_end, out_width;
  int32_t height, width;      // of x
  int32_t x_pixel, dy_pixel;  // floats from pixel to pixel
  int32_t stride_h, stride_w, dilation_h, dilation_w;
  int32_t top, left;  // input position of filter tap (first row, first column) at output (0, 0)
};
using WeightTileKernel = void (*)(const WeightTile&);

// columns > 1: slides along the row, needs stride_w = dilation_w = 1.
struct WeightKernel {
  int32_t outputs, rows, columns, inputs;
  WeightTileKernel kernel;
};

// One window of a pooling, all channels of one sample block.
// Forward: `in` is the first element of the window that is no padding, `out` the output pixel.
// Backward of average: `in` is the first of the rows x columns gradients that reach the pixel
// `out`. Backward of max: `in` is the gradient of the window, `out` its first element that is no
// padding, added to.
struct PoolWindow {
  const float* in;
  float* out;
  const PostOps* post;
  int64_t out_offset;             // of `out` from the beginning of the tensor
  int32_t rows, columns;          // of the window without padding; may be 0
  int32_t row_step, column_step;  // floats
  int32_t channels;
  float factor;  // average: 1 / divisor
  // Max only: position (of the whole window, row-major, with padding) of the winner, for each
  // sample and channel.
  uint8_t* saved;        // of the block's first sample, or null
  int64_t saved_sample;  // bytes from sample to sample
  int32_t samples;
  int32_t first, pitch;  // position of the first element that is no padding, and from row to row
};

}  // namespace backends::cpu::batch_blocked

#endif  // BACKENDS_CPU_BATCH_BLOCKED_KERNEL_ARGUMENTS_H_
