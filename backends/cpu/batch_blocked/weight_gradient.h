// conv2d_backward_weights, with the bias gradient, in the batch-blocked layout.
#ifndef BACKENDS_CPU_BATCH_BLOCKED_WEIGHT_GRADIENT_H_
#define BACKENDS_CPU_BATCH_BLOCKED_WEIGHT_GRADIENT_H_

#include "backends/cpu/batch_blocked/shapes.h"

namespace backends::cpu::batch_blocked {

// Estimated cycles of one pixel of a tile, on a core that does one vector product per cycle.
double pixel_cycles(const WeightKernel& kernel);

// A weight gradient of one shape. Immutable after construction: run() may be called in several
// threads at once with different buffers. The result has the same bits every time for a given
// number of threads. The lanes of absent samples in x and dy may hold anything.
class WeightGradient {
 public:
  // `threads` >= 1. `kernels` outlives this object.
  WeightGradient(const ConvShape& shape, int threads, const KernelTable& kernels);

  uint64_t workspace_bytes() const;

  // x and dy are in the blocked layout; dw is canonical [O,KH,KW,C]; db is [O] or null. Allocates
  // nothing.
  void run(const float* x, const float* dy, float* dw, float* db, void* workspace) const;

  // The parts of run(), for callers that have only some rows of dy at a time. A set of sums has
  // sums_floats() elements, aligned to 64 bytes, and begins with zeros. add_rows() adds what the
  // output rows begin..end of one sample block contribute; `dy_rows` is the first of these rows.
  // write_sums() adds up the lanes and writes dw and db, which is not null.
  int64_t sums_floats() const { return tiles_ * acc_floats(); }
  void add_rows(const float* x, const float* dy_rows, int64_t block, int64_t begin, int64_t end,
                float* sums) const;
  // The same for the windows of a pooling of 2x2 behind the convolution: rows begin..end of them in
  // one sample block. `dy` is the gradient of the pooling's result, which counts four times for an
  // average, and `saved` are PooledRow::passes, both of all samples. Not every kernel takes
  // windows.
  void add_windows(const float* x, const float* dy, const uint16_t* saved, int64_t block,
                   int64_t begin, int64_t end, float* sums) const;
  bool takes_windows() const { return kernel_->pooled_kernel != nullptr; }
  void write_sums(const float* sums, float* dw, float* db) const;

  // Estimated cycles of a core that does one vector product per cycle, without the time for memory.
  double cycles() const;

 private:
  struct Tile {
    int64_t o, c, kh, kw;      // where the tile begins; moved back at the end of O and C
    int64_t first_o, first_c;  // the first channels that no earlier tile has written
  };
  struct Share;
  void choose_kernel(const KernelTable& kernels);
  void choose_split();
  Tile tile(int64_t index) const;
  Share share(int64_t part, int64_t parts) const;
  WeightTile weight_tile(const Tile& tile, float* acc, bool bias) const;
  void accumulate(const Tile& tile, const float* x, const float* dy, int64_t block_begin,
                  int64_t block_end, float* acc, bool bias) const;
  void write(const Tile& tile, const float* acc, float* dw, float* db) const;
  void run_share(const Share& share, const float* x, const float* dy, float* dw, float* db,
                 float* acc) const;

  // Null if each lane of the block is a sample.
  const int32_t* lane_mask(int64_t block) const {
    return (block + 1) * kBlock > shape_.n ? mask_ : nullptr;
  }
  int64_t acc_floats() const;   // of one tile, with its bias
  int64_t bias_vector() const;  // number of vectors before the tile's bias
  // Tiles of the first tap and the first input channel also compute the bias gradient.
  static bool has_bias(const Tile& tile) {
    return tile.first_c == 0 && tile.kh == 0 && tile.kw == 0;
  }
  int64_t result_floats() const { return shape_.o * shape_.kh * shape_.kw * shape_.c + shape_.o; }

  ConvShape shape_;
  int threads_;
  const KernelTable* kernels_;
  const WeightKernel* kernel_ = nullptr;
  double pixel_cycles_ = 0;  // of one tile
  int64_t o_tiles_, c_tiles_, kh_tiles_, kw_tiles_, tiles_;
  // Groups of sample blocks that are summed separately if there are too few tiles for all threads.
  int64_t groups_ = 1;
  int64_t chunk_ = 1;      // sample blocks whose part of x and dy stays in the cache
  bool keeps_all_ = true;  // accumulators of all tiles are kept from chunk to chunk
  alignas(64) int32_t mask_[kBlock];
};

}  // namespace backends::cpu::batch_blocked

#endif  // BACKENDS_CPU_BATCH_BLOCKED_WEIGHT_GRADIENT_H_
