// The instructions for bfloat16 that this processor has.
#ifndef BACKENDS_CPU_BFLOAT16_PROCESSOR_H_
#define BACKENDS_CPU_BFLOAT16_PROCESSOR_H_

namespace backends::cpu {

// Whether this processor multiplies numbers in bfloat16 (AVX512-BF16), and whether it has a matrix
// unit for them (AMX-BF16) besides.
bool has_bfloat16();
bool has_bfloat16_matrices();
// Whether it has such a unit, and the operating system lets this process use it; asks for that.
bool can_use_matrix_unit();

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_BFLOAT16_PROCESSOR_H_
