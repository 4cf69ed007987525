#ifndef BACKENDS_CUDA_LIBRARY_H_
#define BACKENDS_CUDA_LIBRARY_H_

#include "backends/gpu/library.h"

namespace backends::cuda {
using gpu::Library;
}  // namespace backends::cuda

#endif  // BACKENDS_CUDA_LIBRARY_H_
