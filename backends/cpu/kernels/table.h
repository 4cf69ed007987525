// All serial kernels of this folder. There is one table for each instruction set.
#ifndef BACKENDS_CPU_KERNELS_TABLE_H_
#define BACKENDS_CPU_KERNELS_TABLE_H_

#include "backends/cpu/isa.h"
#include "backends/cpu/kernels/convert.h"
#include "backends/cpu/kernels/dropout.h"
#include "backends/cpu/kernels/elementwise.h"
#include "backends/cpu/kernels/norm.h"
#include "backends/cpu/kernels/optimizer.h"
#include "backends/cpu/kernels/pooling.h"
#include "backends/cpu/kernels/reduce.h"
#include "backends/cpu/kernels/rows.h"

namespace backends::cpu::kernels {

// The kernels of one instruction set. Any thread may call them, with buffers of its own.
struct Table : ConvertKernels,
               DropoutKernels,
               ElementwiseKernels,
               NormKernels,
               OptimizerKernels,
               PoolingKernels,
               ReductionKernels,
               RowKernels {};

// The kernels compiled for `isa`, which this processor must have. The table lives as long as the
// process.
const Table& kernels_for(Isa isa);

}  // namespace backends::cpu::kernels

#endif  // BACKENDS_CPU_KERNELS_TABLE_H_
