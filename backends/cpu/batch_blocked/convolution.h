// conv2d and conv2d_backward_data in the batch-blocked layout. Both use the same register tiles,
// with different taps.
#ifndef BACKENDS_CPU_BATCH_BLOCKED_CONVOLUTION_H_
#define BACKENDS_CPU_BATCH_BLOCKED_CONVOLUTION_H_

#include "backends/cpu/batch_blocked/geometry.h"

namespace backends::cpu::batch_blocked {

// The kernel whose channel tiles pad this number of output channels least.
const ConvKernel& best_width(const KernelTable& kernels, int64_t channels);

// Packs weights [O,KH,KW,C] as [channel tile][KH][KW][input channel][width], with zeros behind the
// last channel: rows begin..end of the first three dimensions.
void pack_filters(const ConvShape& shape, Direction direction, int64_t width, const float* weights,
                  float* packed, int64_t begin, int64_t end);

// A convolution of one shape. Immutable after construction: run() may be called in several threads
// at once with different buffers.
class Convolution {
 public:
  // `threads` >= 1. `kernels` outlives this object. `strip_rows` output rows are computed before
  // the next ones; 0: as many as the cache holds the input of.
  Convolution(const ConvShape& shape, Direction direction, int threads, const KernelTable& kernels,
              int64_t strip_rows = 0);

  // Bytes for the packed weights. run() writes the workspace before it reads it.
  uint64_t workspace_bytes() const;

  // `in` and `out` are x and y (forward) or dy and dx, in the blocked layout; `weights` are
  // canonical [O,KH,KW,C]. A bias in `post` has one element for each channel of `out`. All buffers
  // are aligned to 64 bytes. Allocates nothing.
  void run(const float* in, const float* weights, float* out, void* workspace,
           const PostOps& post) const;

  // The two halves of run(), for callers that do something else between strips. pack() does part
  // number `part` of `parts` of packing the weights into the workspace; all parts have to be done
  // before run_strip() computes one strip of rows of one sample block, with all channels, into
  // `rows`, where the strip's first output row begins. `post` has no operand but a bias.
  void pack(const float* weights, void* workspace, int64_t part, int64_t parts) const;
  void run_strip(const float* in, const void* workspace, float* rows, const PostOps& post,
                 int64_t block, int64_t strip) const;

  // Estimated cycles of a core that does one vector product per cycle, without the time for memory.
  double cycles() const;

 private:
  int64_t strip_count() const { return static_cast<int64_t>(geometry_.strips.size()); }
  // Computes channel tiles begin..end of a strip. `out` is where the output of the block would
  // begin, `offset` elements behind the operands of post-operations.
  void run_tiles(const float* in, const float* packed, float* out, int64_t offset,
                 const PostOps& post, int64_t block, const Strip& strip, int64_t begin,
                 int64_t end) const;
  void run_unit(const float* in, const float* packed, float* out, const PostOps& post,
                int64_t unit) const;

  ConvShape shape_;
  const KernelTable* kernels_;
  Direction direction_;
  int threads_;
  Images images_;
  const ConvKernel* kernel_;
  int64_t channel_tiles_;
  int64_t strip_rows_;
  int64_t channel_splits_ = 1;  // work items into which the channel tiles are divided
  Geometry geometry_;
};

}  // namespace backends::cpu::batch_blocked

#endif  // BACKENDS_CPU_BATCH_BLOCKED_CONVOLUTION_H_
