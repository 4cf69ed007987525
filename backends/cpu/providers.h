// The providers of a cpu device.
#ifndef BACKENDS_CPU_PROVIDERS_H_
#define BACKENDS_CPU_PROVIDERS_H_

#include "backends/cpu/engine.h"

namespace backends::cpu {

// Adds every provider to a new engine, in the order in which the engine asks them: oneDNN, our own
// kernels, the batch-blocked kernels, our matrix products, those with packed weights.
void add_providers(Engine& engine);

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_PROVIDERS_H_
