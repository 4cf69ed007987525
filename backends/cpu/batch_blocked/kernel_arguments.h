// The arguments of the inner kernels of the batch-blocked layout: register tiles, windows and
// patches of one sample block. The kernels never allocate and use one thread. Offsets are in floats
// unless said otherwise.
#ifndef BACKENDS_CPU_BATCH_BLOCKED_KERNEL_ARGUMENTS_H_
#define BACKENDS_CPU_BATCH_BLOCKED_KERNEL_ARGUMENTS_H_

#include <cstdint>

namespace backends::cpu::batch_blocked {

// Samples in a block, which is the innermost dimension of the layout: one AVX-512 register of
// float32.
constexpr int kBlock = 16;

// The post-operations that these kernels apply.
enum class Post : int32_t {
  kBias,
  kRelu,
  kResidualAdd,
  kReluBackward,
  kTanhBackward,
  kSigmoidBackward
};

// One post-operation. `operand` is the bias [C], or a residual or saved operand, which is blocked
// like the output and is read at the same offset; it is null for kRelu.
struct PostOp {
  Post kind;
  const float* operand;
};

// The most post-operations that a kernel applies.
constexpr int kMaxPostOps = 4;
// The post-operations of a kernel, in order. The caller owns the operands.
struct PostOps {
  int32_t count = 0;
  PostOp ops[kMaxPostOps] = {};
};

// Taps that are contiguous in the input and in the packed weights. `x` counts vectors from the
// pixel's base, `w` rows of the packed weights; `length` is the number of input channels over all
// these taps.
struct Run {
  int32_t x, w, length;
};

// No kernel takes more pixels at a time.
constexpr int kMaxTilePixels = 8;
// Output pixels that see the same runs. The offsets x and y are in vectors.
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
  int64_t y_offset;  // of `y` from the start of the tensor, for operands of post-operations
  int32_t channel;   // first output channel of the tile
  int32_t channels;  // number of the tile's channels that exist
};
// Computes the tile and stores it to y, with the post-operations.
using ConvTileKernel = void (*)(const ConvTile&);

// The kernels for one width of the channel tiles.
struct ConvKernel {
  int32_t width;       // output channels of the tile
  int32_t max_pixels;  // kernels[i] is for i + 1 pixels
  ConvTileKernel kernels[kMaxTilePixels];
};

// A register tile of a weight gradient, over the output rows [row_begin, row_end) of one sample
// block. The accumulators are acc[output][row][column][input], where `rows` x `columns` are taps of
// the filter.
struct WeightTile {
  const float* x;            // sample block, at the tile's first input channel
  const float* dy;           // sample block, at the tile's first output channel
  float* acc;                // [outputs][rows][columns][inputs][kBlock]; the kernel adds to it
  float* bias;               // [outputs][kBlock]; the kernel adds to it; may be null
  const int32_t* lane_mask;  // [kBlock] of 0 or -1; null: every lane is a sample
  int32_t row_begin, row_end, out_width;
  int32_t height, width;      // of x
  int32_t x_pixel, dy_pixel;  // floats between neighbouring pixels
  int32_t stride_h, stride_w, dilation_h, dilation_w;
  int32_t top, left;  // input position of filter tap (first row, first column) at output (0, 0)
  // Only for WeightKernel::pooled_kernel, where dy is the gradient of 2x2 windows and out_width
  // twice their number: the bits of PooledRow::passes at the tile's first output channel, and the
  // elements between neighbouring windows.
  const uint16_t* passes;
  int32_t passes_pixel;
};
// Adds the gradients of the tile to acc, and to bias if that is not null.
using WeightTileKernel = void (*)(const WeightTile&);

// A kernel with columns > 1 slides along the row and needs stride_w = dilation_w = 1.
struct WeightKernel {
  int32_t outputs, rows, columns, inputs;
  WeightTileKernel kernel;
  WeightTileKernel pooled_kernel;  // null without columns > 1
};

// One window of a pooling, with all channels of one sample block.
// Forward: `in` is the first element of the window inside the image, `out` the output pixel.
// Backward of average: `in` is the first of the rows x columns gradients that reach the pixel
// `out`.
// Backward of max: `in` is the gradient of the window, `out` its first element inside the image;
// the kernel adds to `out`.
struct PoolWindow {
  const float* in;
  float* out;
  const PostOps* post;
  int64_t out_offset;             // of `out` from the start of the tensor
  int32_t rows, columns;          // size of the window inside the image; may be 0
  int32_t row_step, column_step;  // floats
  int32_t channels;
  float factor;  // average: 1 / divisor
  // For max only: the position of the winner in the whole window (row-major, with padding), for
  // each sample and channel.
  uint8_t* saved;        // positions of the block's first sample, or null
  int64_t saved_sample;  // bytes between neighbouring samples
  int32_t samples;
  int32_t first, pitch;  // position of the first element inside the image; positions per row
};

// One output row of a pooling whose windows do not overlap, and the rows of the image under it, for
// one sample block. Columns of the image that fill no window are left out.
struct PooledRow {
  float* image;   // [window_h][width][channels][kBlock]
  float* pooled;  // [columns][channels][kBlock]
  // [columns][channels][window_h * window_w]: bit s says that the gradient of sample s passes to
  // this element of the window. null: to all of them, or nobody asks.
  uint16_t* passes;
  int32_t window_h, window_w, width, columns, channels;
  float factor;     // of an average and of its gradient; 0: the largest element is taken
  int32_t is_relu;  // the image is the result of relu: elements that are not positive pass nothing
};

// The same row, for windows of 2x2, computed together with a convolution without padding; the image
// exists only in registers.
struct PooledConvRow {
  const float* x;     // sample block of the input, at the first tap of the row's first pixel
  const float* w;     // packed weights of one channel tile, as in ConvTile
  const float* bias;  // of the first channel of the tile
  const Run* runs;    // of every pixel
  int32_t run_count;
  int32_t pixel_step, row_step;  // vectors of x between neighbouring pixels of the image
  int32_t channels;              // number of the tile's channels that exist
  PooledRow row;                 // `pooled` and `passes` are at the tile's first channel
};
using PooledConvKernel = void (*)(const PooledConvRow&);

// The kernel for one width of the channel tiles.
struct PooledConv {
  int32_t width;
  PooledConvKernel kernel;
};

}  // namespace backends::cpu::batch_blocked

#endif  // BACKENDS_CPU_BATCH_BLOCKED_KERNEL_ARGUMENTS_H_
