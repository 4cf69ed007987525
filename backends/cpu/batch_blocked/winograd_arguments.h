// The arguments of the inner kernels of Winograd's algorithm: transforms, and products of its
// weight gradient. The rules of kernel_arguments.h hold here, too.
#ifndef BACKENDS_CPU_BATCH_BLOCKED_WINOGRAD_ARGUMENTS_H_
#define BACKENDS_CPU_BATCH_BLOCKED_WINOGRAD_ARGUMENTS_H_

#include "backends/cpu/batch_blocked/kernel_arguments.h"

namespace backends::cpu::batch_blocked {

// A patch of an image and its Winograd transform, for `channels` channels of one sample block.
struct WinogradPatch {
  float* image;         // first pixel of the sample block, at the first of the channels
  int64_t row, column;  // of the patch; pixels outside the image read as 0 and are not written
  int64_t height, width;
  int64_t pixel;  // floats between neighbouring pixels
  int64_t channels;
  float* spectral;        // first position of the transform, at the first channel
  int64_t position_step;  // floats between neighbouring positions
  const PostOps* post;    // output only
  int64_t image_offset;   // of `image` from the start of the tensor, output only
  int32_t first_channel;  // of `image` in the tensor, output only
};
// Transforms a patch in one of the directions that WinogradKernel lists.
using WinogradTransform = void (*)(const WinogradPatch&);

// Position (kSumPosition, kSumPosition) of the result of output_adjoint is the sum of the patch.
constexpr int64_t kSumPosition = 1;

// F(m x m, r x r) computes m x m outputs of an r x r filter with (m + r - 1)^2 products.
struct WinogradKernel {
  int32_t outputs, filter;
  WinogradTransform input;   // forward: from a patch of x to the transform
  WinogradTransform output;  // forward: from the transform to a patch of y, with post-operations
  WinogradTransform input_adjoint;   // adds the adjoint of `input` to a patch of dx
  WinogradTransform output_adjoint;  // from a patch of dy to the transform
  // Transforms kBlock pairs of channels: from w[tap][kBlock] to spectral[position * position_step].
  void (*weights)(const float* w, float* spectral, int64_t position_step);
  // The same, past the caches: for transforms that are too large to stay there.
  void (*weights_past_caches)(const float* w, float* spectral, int64_t position_step);
  // The adjoint of `weights`: from spectral[position][kBlock] to w[tap][kBlock].
  void (*weights_adjoint)(const float* spectral, float* w);
};

// A register tile of products that are summed over pixels and lanes: `outputs` channels of dy times
// `inputs` channels of x.
struct PairTile {
  const float* x;   // first pixel, at the tile's first input channel
  const float* dy;  // first pixel, at the tile's first output channel
  float* sums;      // [outputs][inputs], padded to a multiple of kBlock; the kernel adds to it
  int32_t pixels;
  int32_t x_pixel, dy_pixel;  // floats between neighbouring pixels
};
// The kernel for one size of the tile.
struct PairKernel {
  int32_t outputs, inputs;
  void (*kernel)(const PairTile&);
};

}  // namespace backends::cpu::batch_blocked

#endif  // BACKENDS_CPU_BATCH_BLOCKED_WINOGRAD_ARGUMENTS_H_
