#include "backends/cpu/kernels/optimizer.h"

#include <cmath>

#include "backends/cpu/parallel.h"

namespace backends::cpu::kernels {

CPU_KERNEL void sgd(const Sgd& settings, const float* param, const float* grad, float* out,
                    int64_t count) {
  const Sgd s = settings;  // a copy: stores to `out` cannot change it
  for (int64_t i = 0; i < count; ++i) {
    const float g = s.scale * grad[i] + s.weight_decay * param[i];
    out[i] = param[i] - s.lr * g;
  }
}

CPU_KERNEL void sgd_momentum(const Sgd& settings, const float* param, const float* grad,
                             const float* velocity, float* param_out, float* velocity_out,
                             int64_t count) {
  const Sgd s = settings;
  const float ahead = s.nesterov ? 1.0f : 0.0f;
  const float along = s.nesterov ? s.momentum : 1.0f;
  for (int64_t i = 0; i < count; ++i) {
    const float g = s.scale * grad[i] + s.weight_decay * param[i];
    const float v = s.momentum * velocity[i] + g;
    param_out[i] = param[i] - s.lr * (ahead * g + along * v);
    velocity_out[i] = v;
  }
}

CPU_KERNEL void adamw(const AdamW& settings, const float* param, const float* grad, const float* m,
                      const float* v, float* param_out, float* m_out, float* v_out, int64_t count) {
  const AdamW s = settings;
  for (int64_t i = 0; i < count; ++i) {
    const float g = s.scale * grad[i];
    const float first = s.beta1 * m[i] + (1.0f - s.beta1) * g;
    const float second = s.beta2 * v[i] + (1.0f - s.beta2) * g * g;
    const float decayed = param[i] - s.lr * s.weight_decay * param[i];
    const float root = std::sqrt(second * s.correction2) + s.epsilon;
    param_out[i] = decayed - s.lr * (first * s.correction1) / root;
    m_out[i] = first;
    v_out[i] = second;
  }
}

}  // namespace backends::cpu::kernels
