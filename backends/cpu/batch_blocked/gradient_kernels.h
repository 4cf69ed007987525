// The kernels of weight gradients as products of packed matrices: for each pixel that of dy
// [channels][samples] and that of x [samples][channels]. There is one table for each instruction
// set, and one for the matrix unit of newer Intel processors. A kernel uses one thread, allocates
// nothing and calls nothing outside its source.
#ifndef BACKENDS_CPU_BATCH_BLOCKED_GRADIENT_KERNELS_H_
#define BACKENDS_CPU_BATCH_BLOCKED_GRADIENT_KERNELS_H_

#include "backends/cpu/batch_blocked/kernel_arguments.h"
#include "backends/cpu/isa.h"

namespace backends::cpu::batch_blocked {

// One sample block or two at the same pixel. `second` is null if there is only one; lanes from
// `samples` on (counted over both blocks) belong to no sample and are packed as 0.
struct PixelPair {
  const float* first;
  const float* second;
  int64_t channels;
  int32_t samples;
};

// Products of a tile of channels of dy with a tile of channels of x, summed over samples and
// pixels.
struct GradientTile {
  const char* const* dy;  // the first pixel of each output row, at the tile's output channels
  const char* const* x;   // the first pixel of the input row that belongs to it at this tap
  int64_t rows, columns;
  int64_t dy_pixel, x_pixel;  // bytes between neighbouring pixels
  float* sums;                // [outputs][inputs], times 1 / GradientKernels::unscale
  bool add;                   // to what is in `sums`
};

struct GradientKernels {
  const char* name;
  int64_t outputs, inputs;            // channels of a tile
  int64_t output_bytes, input_bytes;  // of a packed tile of a pair
  double step_cycles;                 // measured: of the products of a tile at a pixel,
  double pack_cycles;                 // and of packing a register
  // Make the calling thread ready for the products, and undo that. May be null.
  void (*begin)();
  void (*end)();
  // Pack the tiles of a pair, one after the other; the channels of the last one are filled up with
  // zeros. The first adds the pair to `bias` [channels][kBlock], unless that is null. May write up
  // to 64 bytes behind the last tile. The answer is false if a number cannot be packed (infinite,
  // say, or no number); what was packed is then unusable.
  bool (*pack_outputs)(const PixelPair& dy, float* bias, char* packed);
  bool (*pack_inputs)(const PixelPair& x, char* packed);
  void (*add_products)(const GradientTile& tile);
  float unscale;
};

// The kernels of an instruction set, which this processor must have.
const GradientKernels& gradient_kernels_for(Isa isa);
// Those of the matrix unit, or nullptr where matrix_unit_kernels() is.
const GradientKernels* matrix_unit_gradient_kernels();

}  // namespace backends::cpu::batch_blocked

#endif  // BACKENDS_CPU_BATCH_BLOCKED_GRADIENT_KERNELS_H_
