// Philox-4x32-10 and the dropout made from it. plugins/operations.md says how the generator is
// keyed.
#ifndef BACKENDS_CPU_KERNELS_DROPOUT_H_
#define BACKENDS_CPU_KERNELS_DROPOUT_H_

#include <cstdint>

namespace backends::cpu::kernels {

// Selects the random numbers of one sample in one step.
struct DropoutKey {
  uint32_t key_low, key_high;  // halves of the seed
  uint32_t sample, step, stream;
  float probability, scale;  // scale: 1 / (1 - probability)
};

// The kernels of one instruction set.
struct DropoutKernels {
  // Processes elements first .. first + count of one sample. x and y point at element `first`; y
  // may be x.
  void (*dropout)(const DropoutKey& key, int64_t first, const float* x, float* y, int64_t count);
};

}  // namespace backends::cpu::kernels

#endif  // BACKENDS_CPU_KERNELS_DROPOUT_H_
