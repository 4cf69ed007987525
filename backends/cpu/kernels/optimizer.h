// Serial optimizer updates over a range of one parameter. The formulas are in
// plugins/operations.md.
#ifndef BACKENDS_CPU_KERNELS_OPTIMIZER_H_
#define BACKENDS_CPU_KERNELS_OPTIMIZER_H_

#include <cstdint>

namespace backends::cpu::kernels {

// The settings of one sgd update. `momentum` is 0 if the operation has no velocity operand.
struct Sgd {
  float lr, scale, weight_decay, momentum;
  bool nesterov;
};

// The factors of one adamw update, which are the same for all elements.
struct AdamW {
  float lr, scale, beta1, beta2, epsilon;
  float keep;          // 1 - lr * weight_decay
  float rest1, rest2;  // 1 - beta, subtracted in float64: a rounded beta would lose digits
  float correction1, correction2;  // 1 / (1 - beta^step)
};

// The kernels of one instruction set.
struct OptimizerKernels {
  // One update of `count` elements. An output may be the input that it replaces.
  void (*sgd)(const Sgd& s, const float* param, const float* grad, float* out, int64_t count);
  void (*sgd_momentum)(const Sgd& s, const float* param, const float* grad, const float* velocity,
                       float* param_out, float* velocity_out, int64_t count);

  void (*adamw)(const AdamW& s, const float* param, const float* grad, const float* m,
                const float* v, float* param_out, float* m_out, float* v_out, int64_t count);
};

}  // namespace backends::cpu::kernels

#endif  // BACKENDS_CPU_KERNELS_OPTIMIZER_H_
