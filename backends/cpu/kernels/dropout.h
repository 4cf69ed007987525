// Philox-4x32-10 and the dropout made from it; plugins/operations.md says how it is keyed.
#ifndef BACKENDS_CPU_KERNELS_DROPOUT_H_
#define BACKENDS_CPU_KERNELS_DROPOUT_H_

#include <cstdint>

namespace backends::cpu::kernels {

struct DropoutKey {
  uint32_t key_low, key_high;  // of the seed
  uint32_t sample, step, stream;
  float probability, scale;  // scale: 1 / (1 - probability)
};

struct DropoutKernels {
  // Elements first .. first + count of one sample; x and y point at the first.
  void (*dropout)(const DropoutKey& key, int64_t first, const float* x, float* y, int64_t count);
};

}  // namespace backends::cpu::kernels

#endif  // BACKENDS_CPU_KERNELS_DROPOUT_H_
