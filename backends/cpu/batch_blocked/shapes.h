// Shapes of operations on float32 images in the batch-blocked layout [ceil(N/16)][H][W][C][16].
#ifndef BACKENDS_CPU_BATCH_BLOCKED_SHAPES_H_
#define BACKENDS_CPU_BATCH_BLOCKED_SHAPES_H_

#include <cstdint>

#include "backends/cpu/batch_blocked/kernel_table.h"
#include "backends/cpu/divide.h"

namespace backends::cpu::batch_blocked {

// The number of blocks that hold `samples` samples.
inline int64_t sample_blocks(int64_t samples) { return divide_up(samples, kBlock); }

// The number of vector registers that hold one position (pixel and channel) of all samples.
inline int64_t sample_vectors(int64_t samples, const KernelTable& kernels) {
  return sample_blocks(samples) * (kBlock / kernels.lanes);
}

// x [N,H,W,C] * w [O,KH,KW,C] -> y [N,P,Q,O], with one group.
struct ConvShape {
  int64_t n, h, w, c, o, kh, kw, p, q;
  int64_t stride_h = 1, stride_w = 1, pad_top = 0, pad_left = 0, dilation_h = 1, dilation_w = 1;

  double flops() const { return 2.0 * n * p * q * o * kh * kw * c; }
};

// x [N,H,W,C] -> y [N,P,Q,C]
struct PoolShape {
  int64_t n, h, w, c, p, q, kernel_h, kernel_w;
  int64_t stride_h = 1, stride_w = 1, pad_top = 0, pad_left = 0;
  bool count_include_pad = true;
};

}  // namespace backends::cpu::batch_blocked

#endif  // BACKENDS_CPU_BATCH_BLOCKED_SHAPES_H_
