// The kernels that convolve images of the batch-blocked layout with the matrix unit of newer Intel
// processors (AMX). They pack float32 numbers as three bfloat16 ones each (../matrix_unit.inc) and
// multiply what was packed. A kernel uses one thread, allocates nothing and calls nothing outside
// its source.
#ifndef BACKENDS_CPU_BATCH_BLOCKED_MATRIX_UNIT_KERNELS_H_
#define BACKENDS_CPU_BATCH_BLOCKED_MATRIX_UNIT_KERNELS_H_

#include "backends/cpu/batch_blocked/kernel_arguments.h"

namespace backends::cpu::batch_blocked {

// Channels that are packed, and multiplied, at a time; the last ones are filled up with zeros.
constexpr int kMatrixChannels = 32;
// Bytes of kMatrixChannels channels of kBlock samples, and of as many weights.
constexpr int64_t kPackedPixel = 3 * 1024, kPackedWeights = 6 * 1024;

// Up to two pixels times up to kMatrixChannels output channels.
struct MatrixTile {
  const char* x;    // packed pixels of the strip's input
  const char* w;    // packed weights of this channel tile: [tap][input channels]
  float* y;         // sample block of the output, at the tile's first channel
  const Run* runs;  // in steps of kMatrixChannels channels
  const PixelTile* pixels;
  const PostOps* post;
  int64_t y_offset;  // of `y` from the start of the tensor, for operands of post-operations
  int32_t channel;   // first output channel of the tile
  int32_t channels;  // number of the tile's channels that exist
};

// The kernels of convolutions and of their data gradients.
struct MatrixUnitKernels {
  // Makes the calling thread ready for the products, and undoes that.
  void (*begin)();
  void (*end)();
  // Packs `count` pixels [channels][kBlock]: [channels / 32][3][1024 bytes] each. Lanes from
  // `samples` on belong to no sample. The answer is false if a number is too large (infinite, say,
  // or no number); what was packed is then unusable.
  bool (*pack_pixels)(const float* pixels, int64_t channels, int64_t count, int32_t samples,
                      char* packed);
  void (*convolve)(const MatrixTile& tile);
};

// The kernels, or nullptr if this processor has no matrix unit or the operating system does not let
// this process use it.
const MatrixUnitKernels* matrix_unit_kernels();

}  // namespace backends::cpu::batch_blocked

#endif  // BACKENDS_CPU_BATCH_BLOCKED_MATRIX_UNIT_KERNELS_H_
