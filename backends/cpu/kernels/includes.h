// The headers that kernels.inc needs. They are included before the pragma of kernels_<isa>.cpp, for
// the reason given in kernels.inc.
#ifndef BACKENDS_CPU_KERNELS_INCLUDES_H_
#define BACKENDS_CPU_KERNELS_INCLUDES_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "backends/cpu/kernels/activation.h"
#include "backends/cpu/kernels/math.h"
#include "backends/cpu/kernels/table.h"

#endif  // BACKENDS_CPU_KERNELS_INCLUDES_H_
