// The arithmetic that a model needs, whatever a device makes of it.
#ifndef RUNTIME_TRAIN_MODEL_FLOPS_H_
#define RUNTIME_TRAIN_MODEL_FLOPS_H_

#include "runtime/train/rank/rank_setup.h"

namespace runtime::train {

// The function returns the floating-point operations of products (matrices, convolutions,
// attention; a multiply-add is two) in the forward and backward pass of the whole model for one
// sample, without what is computed again to save memory. Gradients that nobody needs (of the
// samples, of frozen parameters) do not count. It builds a step as graph and runs nothing.
// Equivalent to: the "model FLOPs" of Chowdhery et al., "PaLM", 2022, counted exactly.
double model_flops(const RankSetup& setup);

// The function returns the share of device.peak_tflops, which must be above 0, that training takes
// on all ranks together. `flops` is model_flops().
double model_flops_utilisation(const RankSetup& setup, double flops, double samples_per_second);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_MODEL_FLOPS_H_
