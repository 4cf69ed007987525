// conv2d_backward_weights by the adjoint of Winograd's algorithm, in the batch-blocked layout:
// dw = Gt [ sum over tiles and samples of (Bt x B) . (A dy At) ] G.
#ifndef BACKENDS_CPU_BATCH_BLOCKED_WINOGRAD_GRADIENT_H_
#define BACKENDS_CPU_BATCH_BLOCKED_WINOGRAD_GRADIENT_H_

#include "backends/cpu/batch_blocked/winograd.h"

namespace backends::cpu::batch_blocked {

// A weight gradient of one shape. Immutable after construction: run() may be called in several
// threads at once with different buffers. The result has the same bits every time for a given
// number of threads. The lanes of absent samples in x and dy may hold anything.
class WinogradGradient {
 public:
  // find_winograd(shape, kernels) must not be null. `threads` >= 1. `kernels` outlives this object.
  WinogradGradient(const ConvShape& shape, int threads, const KernelTable& kernels);

  // False if the workspace of one thread would exceed a limit, as with very many channels.
  // WeightGradient is the alternative.
  bool fits_memory() const;
  uint64_t workspace_bytes() const;
  // Estimated cycles of a core that does one vector product per cycle, without the time for memory.
  double cycles() const;
  // The arguments are those of WeightGradient::run.
  void run(const float* x, const float* dy, float* dw, float* db, void* workspace) const;

 private:
  // The workspace of one thread.
  struct Scratch {
    float* x;     // [position][pixel][C][kBlock]; a pixel is a tile of a sample block
    float* dy;    // [position][pixel][channel of the group][kBlock]
    float* sums;  // [output tile][input tile][position][tile_floats]
    float* bias;  // [O][kBlock]
  };
  // Output tiles begin..end and the channels that they cover. The last tile is moved back to fit.
  struct Group {
    int64_t begin, end, channel, channels;
  };
  int64_t positions() const { return size_ * size_; }
  int64_t tile_floats() const;  // of one position
  int64_t sums_floats() const { return o_tiles_ * c_tiles_ * positions() * tile_floats(); }
  int64_t scratch_floats() const;
  Scratch scratch(void* workspace, int64_t part) const;
  int64_t first_output(int64_t o_tile) const;
  int64_t first_input(int64_t c_tile) const;
  void transform_inputs(const float* x, int64_t first, int64_t count, const Scratch& s) const;
  void transform_outputs(const float* dy, int64_t first, int64_t count, const Group& group,
                         const Scratch& s) const;
  void transform(const WinogradPatch& patch, WinogradTransform kernel, int64_t index) const;
  void multiply(int64_t count, const Group& group, const Scratch& s) const;
  void add_bias(int64_t count, const Group& group, const Scratch& s) const;
  void add_pixels(const float* x, const float* dy, int64_t first, int64_t count, bool bias,
                  const Scratch& s) const;
  void finish(void* workspace, int64_t parts, int64_t tile, float* dw) const;
  void finish_bias(void* workspace, int64_t parts, float* db) const;

  ConvShape shape_;
  int threads_;
  const KernelTable* kernels_;
  const WinogradKernel* winograd_;
  const PairKernel* kernel_ = nullptr;
  int64_t size_, tile_columns_, tiles_, o_tiles_ = 0, c_tiles_ = 0;
  int64_t chunk_;  // pixels that are transformed before they are multiplied
  int64_t group_;  // output tiles whose dy is transformed at a time
};

}  // namespace backends::cpu::batch_blocked

#endif  // BACKENDS_CPU_BATCH_BLOCKED_WINOGRAD_GRADIENT_H_
