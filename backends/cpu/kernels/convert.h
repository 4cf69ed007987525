// Serial conversions between float and bfloat16.
#ifndef BACKENDS_CPU_KERNELS_CONVERT_H_
#define BACKENDS_CPU_KERNELS_CONVERT_H_

#include <cstdint>

namespace backends::cpu::kernels {

// The kernels of one instruction set. x and y may not overlap. Denormal numbers are kept, which the
// instruction VCVTNEPS2BF16 would not do.
struct ConvertKernels {
  // y = x, exactly.
  void (*widen)(const uint16_t* x, float* y, int64_t count);
  // y = x, rounded to nearest even; a NaN stays a NaN.
  void (*narrow)(const float* x, uint16_t* y, int64_t count);
};

}  // namespace backends::cpu::kernels

#endif  // BACKENDS_CPU_KERNELS_CONVERT_H_
