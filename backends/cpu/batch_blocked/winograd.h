// conv2d and conv2d_backward_data by Winograd's algorithm in the batch-blocked layout. Every
// transform works on vectors of samples, so no lane is wasted, whatever the number of channels.
#ifndef BACKENDS_CPU_BATCH_BLOCKED_WINOGRAD_H_
#define BACKENDS_CPU_BATCH_BLOCKED_WINOGRAD_H_

#include <vector>

#include "backends/cpu/batch_blocked/convolution.h"

namespace backends::cpu::batch_blocked {

// The kernel for square filters of 3 or 5 with stride 1 and no dilation; null for other shapes.
const WinogradKernel* find_winograd(const ConvShape& shape, const KernelTable& kernels);

// A convolution of one shape. Immutable after construction: run() may be called in several threads
// at once with different buffers.
class Winograd {
 public:
  // find_winograd(shape, kernels) must not be null. `threads` >= 1. `kernels` outlives this object.
  Winograd(const ConvShape& shape, Direction direction, int threads, const KernelTable& kernels);

  uint64_t workspace_bytes() const;
  // Estimated cycles of a core that does one vector product per cycle, without the time for memory.
  double cycles() const;
  // The arguments are those of Convolution::run.
  void run(const float* in, const float* weights, float* out, void* workspace,
           const PostOps& post) const;

 private:
  struct Group;
  bool forward() const { return direction_ == Direction::kForward; }
  int64_t positions() const { return size_ * size_; }
  int64_t packed_step() const;  // floats between neighbouring positions
  int64_t packed_floats() const;
  int64_t spectral_in_floats() const;   // of a group of tiles, all input channels
  int64_t spectral_out_floats() const;  // of a group of tiles, one channel tile
  int64_t pack_units() const;
  void pack(const float* weights, float* packed, int64_t begin, int64_t end) const;
  void pack_vector(const float* weights, float* packed, int64_t channel_tile, int64_t vector) const;
  void transform_inputs(const Group& group) const;
  void multiply(const Group& group, const float* packed_tile) const;
  void transform_outputs(const Group& group, int64_t channel, const PostOps& post) const;
  void run_group(const Group& group, const float* packed, const PostOps& post) const;
  void run_unit(const float* in, const float* packed, float* out, float* scratch,
                const PostOps& post, int64_t unit) const;
  // The patch and the transform of tile `t` of a sample block, without buffers.
  WinogradPatch input_patch(int64_t t) const;
  WinogradPatch output_patch(int64_t t) const;

  // The other order, in winograd_by_position.cpp. All threads of a team call these.
  struct Pass;
  void run_by_position(const float* in, const float* packed, float* out, float* spectral,
                       const PostOps& post) const;
  void transform_inputs(const Pass& pass, int64_t unit) const;
  void multiply(const Pass& pass, const float* packed, int64_t unit) const;
  void transform_outputs(const Pass& pass, int64_t unit, const PostOps& post) const;
  // Floats between neighbouring positions of a pass, and of whole transforms.
  int64_t pass_in_step(int64_t tiles) const;
  int64_t pass_out_step(int64_t tiles) const;
  int64_t pass_in_floats() const;
  int64_t pass_out_floats() const;

  ConvShape shape_;
  Direction direction_;
  int threads_;
  const KernelTable* kernels_;
  const WinogradKernel* winograd_;
  const ConvKernel* product_;
  int64_t size_;  // of the transform, along each dimension
  int64_t in_channels_, out_channels_, channel_tiles_;
  int64_t tile_columns_, tiles_;  // in one sample block
  int64_t group_tiles_, groups_;  // tiles that are transformed together, so that they stay in the
                                  // cache
  // More than 0: all tiles of so many sample blocks are multiplied position by position, so that
  // the weights are read once for all of them.
  int64_t pass_blocks_ = 0;
  std::vector<PixelTile> products_;   // of a full group, or of a full pass
  std::vector<PixelTile> remainder_;  // of the last one
};

}  // namespace backends::cpu::batch_blocked

#endif  // BACKENDS_CPU_BATCH_BLOCKED_WINOGRAD_H_
