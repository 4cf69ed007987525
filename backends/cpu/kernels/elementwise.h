// Serial kernels over ranges of float arrays. Callers divide the work among threads.
#ifndef BACKENDS_CPU_KERNELS_ELEMENTWISE_H_
#define BACKENDS_CPU_KERNELS_ELEMENTWISE_H_

#include <cstdint>

namespace backends::cpu::kernels {

// The operation that ElementwiseKernels::binary computes.
enum class Binary : int32_t { kAdd, kSubtract, kMultiply, kDivide };

// The kernels of one instruction set. Elements at the same index belong together.
struct ElementwiseKernels {
  // `function` is RT_ACTIVATION_*; s is what the gradient needs (the result y, or x for the gelus).
  // y may be x, and dx may be dy or s. The functions that `activation` alone has (kForwardOnly)
  // have no gradient here.
  void (*activation)(int32_t function, const float* x, float* y, int64_t count);
  void (*activation_backward)(int32_t function, const float* dy, const float* s, float* dx,
                              int64_t count);
  // y = f(gate) up, and its gradients. `function` is one of gated_activation. y may be gate or up,
  // dgate and dup any operand.
  void (*gated_activation)(int32_t function, const float* gate, const float* up, float* y,
                           int64_t count);
  void (*gated_activation_backward)(int32_t function, const float* dy, const float* gate,
                                    const float* up, float* dgate, float* dup, int64_t count);
  // Turns `heads` heads of `width` columns of one row: `half` pairs of each, by `half` cosines and
  // then sines. y may be x.
  void (*rotate_row)(const float* x, const float* turns, int64_t heads, int64_t width, int64_t half,
                     bool inverse, float* y);

  // c = a op b. An operand advances by its step: 0 for one value that is repeated, 1 for an array.
  void (*binary)(Binary op, const float* a, int64_t a_step, const float* b, int64_t b_step,
                 float* c, int64_t count);

  // y += r.
  void (*add_to)(float* y, const float* r, int64_t count);
  // Adds b[(first + i) % channels] to y[i].
  void (*add_bias)(float* y, const float* b, int64_t first, int64_t channels, int64_t count);
  // y = alpha x + beta.
  void (*scale)(const float* x, float alpha, float beta, float* y, int64_t count);
  void (*fill)(float* y, float value, int64_t count);
  // The sum of x[i]^2, added in double.
  double (*square_sum)(const float* x, int64_t count);
};

}  // namespace backends::cpu::kernels

#endif  // BACKENDS_CPU_KERNELS_ELEMENTWISE_H_
