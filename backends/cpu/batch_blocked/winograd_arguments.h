// What the inner kernels of Winograd's algorithm work on: transforms, and products of its weight
// gradient. As kernel_arguments.h.
#ifndef BACKENDS_CPU_BATCH_BLOCKED_WINOGRAD_ARGUMENTS_H_
#define BACKENDS_CPU_BATCH_BLOCKED_WINOGRAD_ARGUMENTS_H_

#include "backends/cpu/batch_blocked/kernel_arguments.h"

namespace backends::cpu::batch_blocked {

// A patch of an image and its Winograd transform, for `channels` channels of one sample block.
struct WinogradPatch {
  float* image;         // first pixel of the sample block, at the first of the channels
  int64_t row, column;  // of the patch; parts outside the image read as 0 and are not written
  int64_t height, width;
  int64_t pixel;  // floats from pixel to pixel
  int64_t channels;
  float* spectral;        // first position of the transform, at the first channel
  int64_t position_step;  // floats from position to position
  const PostOps* post;    // output only
  int64_t image_offset;   // of `image` from the beginning of the tensor, output only
  int32_t first_channel;  // of the tensor, output only
};
using WinogradTransform = void (*)(const WinogradPatch&);

// Position (kSumPosition, kSumPosition) of output_adjoint's result is the sum of the patch.
constexpr int64_t kSumPosition = 1;

// F(m x m, r x r): m x m outputs of an r x r filter by (m + r - 1)^2 products.
struct WinogradKernel {
  int32_t outputs, filter;
  WinogradTransform input;           // forward: patch of x -> spectral
  WinogradTransform output;          // forward: spectral -> patch of y, with post-operations
  WinogradTransform input_adjoint;   // spectral -> added to patch of dx
  WinogradTransform output_adjoint;  // patch of dy -> spectral
  // For kBlock pairs of channels: w[tap][kBlock] -> spectral[position * position_step]
  void (*weights)(const float* w, float* spectral, int64_t position_step);
  // The adjoint: spectral[position][kBlock] -> w[tap][kBlock]
  void (*weights_adjoint)(const float* spectral, float* w);
};

// A register tile of products summed over pixels and lanes: `outputs` channels of dy times `inputs`
// channels of x.
struct PairTile {
  const float* x;   // first pixel, at the tile's first input channel
  const float* dy;  // first pixel, at the tile's first output channel
  float* sums;      // [outputs][inputs], then up to a multiple of kBlock; added to
  int32_t pixels;
  int32_t x_pixel, dy_pixel;  // floats from pixel to pixel
};
struct PairKernel {
  int32_t outputs, inputs;
  void (*kernel)(const PairTile&);
};

}  // namespace backends::cpu::batch_blocked

#endif  // BACKENDS_CPU_BATCH_BLOCKED_WINOGRAD_ARGUMENTS_H_
