// conv2d and conv2d_backward_data in the batch-blocked layout. Both use the same register tiles,
// with different taps.
#ifndef BACKENDS_CPU_BATCH_BLOCKED_CONVOLUTION_H_
#define BACKENDS_CPU_BATCH_BLOCKED_CONVOLUTION_H_

#include <utility>
#include <vector>

#include "backends/cpu/batch_blocked/shapes.h"

namespace backends::cpu::batch_blocked {

// Which of the two operations a Convolution or Winograd object computes.
enum class Direction { kForward, kBackwardData };

// The kernel whose channel tiles pad this number of output channels least.
const ConvKernel& best_width(const KernelTable& kernels, int64_t channels);

// A convolution of one shape. Immutable after construction: run() may be called in several threads
// at once with different buffers.
//
// Output pixels with the same set of taps inside the image form a class, and a register tile holds
// pixels of one class only. So taps that fall on padding, or between the pixels of a strided
// gradient, cost nothing.
class Convolution {
 public:
  // `threads` >= 1. `kernels` outlives this object.
  Convolution(const ConvShape& shape, Direction direction, int threads, const KernelTable& kernels);

  // Bytes for the packed weights. run() writes the workspace before it reads it.
  uint64_t workspace_bytes() const;

  // `in` and `out` are x and y (forward) or dy and dx, in the blocked layout; `weights` are
  // canonical [O,KH,KW,C]. A bias in `post` has one element for each channel of `out`. All buffers
  // are aligned to 64 bytes. Allocates nothing.
  void run(const float* in, const float* weights, float* out, void* workspace,
           const PostOps& post) const;

  // Estimated cycles of a core that does one vector product per cycle, without the time for memory.
  double cycles() const;

 private:
  struct Axis;
  Axis axis(int64_t out, int64_t in, int64_t k, int64_t stride, int64_t pad,
            int64_t dilation) const;
  void add_tiles(const std::vector<std::pair<int64_t, int64_t>>& pixels, int32_t first_run,
                 int32_t run_count, const Axis& rows, const Axis& columns);
  int64_t strip_rows(int64_t height) const;
  void build_tiles(const Axis& rows, const Axis& columns);
  void add_runs(const Axis& rows, int row_class, const Axis& columns, int column_class);
  void pack(const float* weights, float* packed, int64_t begin, int64_t end) const;
  void run_unit(const float* in, const float* packed, float* out, const PostOps& post,
                int64_t unit) const;

  ConvShape shape_;
  const KernelTable* kernels_;
  Direction direction_;
  int threads_;
  const ConvKernel* kernel_;
  int64_t in_channels_, out_channels_, in_pixels_, out_pixels_, in_width_;
  int64_t channel_tiles_;
  int64_t channel_splits_ = 1;  // work items into which the channel tiles are divided
  std::vector<Run> runs_;
  std::vector<PixelTile> tiles_;
  // Strip i is tiles_[strips_[i] .. strips_[i + 1]): a few rows that stay in the cache.
  std::vector<int32_t> strips_;
};

}  // namespace backends::cpu::batch_blocked

#endif  // BACKENDS_CPU_BATCH_BLOCKED_CONVOLUTION_H_
