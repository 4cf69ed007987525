// conv2d_backward_weights by the adjoint of Winograd's algorithm, in the batch-blocked layout:
// dw = Gt [ sum over tiles and samples of (Bt x B) . (A dy At) ] G.
#ifndef BACKENDS_CPU_BATCH_BLOCKED_WINOGRAD_GRADIENT_H_
#define BACKENDS_CPU_BATCH_BLOCKED_WINOGRAD_GRADIENT_H_

#include "backends/cpu/batch_blocked/winograd.h"

namespace backends::cpu::batch_blocked {

// Immutable after construction; run() may be called in several threads at once with different
// buffers. The result is the same bits every time for a given number of threads. Padding lanes of x
// and dy may hold anything.
class WinogradGradient {
 public:
  // find_winograd(shape, kernels) is not null.
  WinogradGradient(const ConvShape& shape, int threads,
                   const KernelTable& kernels = best_kernels());

  // With very many channels it would need too much; WeightGradient is the one to take then.
  bool fits_memory() const;
  uint64_t workspace_bytes() const;
  // Estimate for one core that does one vector product a cycle, memory aside.
  double cycles() const;
  // As WeightGradient::run.
  void run(const float* x, const float* dy, float* dw, float* db, void* workspace) const;

 private:
  // What one thread works in.
  struct Scratch {
    float* x;     // [position][block of the chunk][tile][C][kBlock]
    float* dy;    // [position][block of the chunk][tile][O][kBlock]
    float* acc;   // [position][output tile][input tile][outputs][inputs][kBlock], then the bias
                  // [O][kBlock]
    float* sums;  // acc and bias without lanes
  };
  int64_t positions() const { return size_ * size_; }
  int64_t tile_vectors() const { return static_cast<int64_t>(kernel_->outputs) * kernel_->inputs; }
  int64_t acc_vectors() const;  // with the bias, whole groups of kBlock
  int64_t bias_vector() const { return positions() * o_tiles_ * c_tiles_ * tile_vectors(); }
  int64_t scratch_floats() const;
  Scratch scratch(void* workspace, int64_t part) const;
  void transform_block(const float* x, const float* dy, int64_t block, int64_t slot, int64_t slots,
                       const Scratch& s) const;
  void clear_padding(float* spectral, int64_t channels, int64_t slot, int64_t slots) const;
  void multiply(int64_t slots, const Scratch& s, bool bias) const;
  void finish(const float* sums, int64_t parts, int64_t part_step, int64_t begin, int64_t end,
              float* dw, float* db) const;

  ConvShape shape_;
  int threads_;
  const KernelTable* kernels_;
  const WinogradKernel* winograd_;
  const WeightKernel* kernel_ = nullptr;
  int64_t size_, tile_columns_, tiles_, o_tiles_ = 0, c_tiles_ = 0;
  int64_t chunk_;  // sample blocks transformed before they are multiplied
};

}  // namespace backends::cpu::batch_blocked

#endif  // BACKENDS_CPU_BATCH_BLOCKED_WINOGRAD_GRADIENT_H_
