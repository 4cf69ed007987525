// The convolutions by MIOpen on one opened device.
#ifndef BACKENDS_ROCM_MIOPEN_H_
#define BACKENDS_ROCM_MIOPEN_H_

#include <memory>

#include "backends/gpu/vendor.h"

namespace backends::rocm {

// Opens MIOpen for the calling thread's device. Throws RT_ERROR_UNAVAILABLE if the library or one
// of its functions is missing, or if it does not start. `search`: the library measures the
// solutions of each convolution once (about seconds each), instead of ranking them by estimates.
std::unique_ptr<gpu::Vendor> open_miopen(bool search);

}  // namespace backends::rocm

#endif  // BACKENDS_ROCM_MIOPEN_H_
