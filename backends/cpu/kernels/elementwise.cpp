#include "backends/cpu/kernels/elementwise.h"

#include <algorithm>

#include "backends/cpu/kernels/math.h"
#include "backends/cpu/parallel.h"

namespace backends::cpu::kernels {
namespace {

// target_clones wants plain functions, so every activation gets a pair of its own.
#define CPU_ACTIVATION(NAME, FUNCTION)                                                         \
  CPU_KERNEL void NAME##_forward(const float* x, float* y, int64_t count) {                    \
    for (int64_t i = 0; i < count; ++i) y[i] = activate<FUNCTION>(x[i]);                       \
  }                                                                                            \
  CPU_KERNEL void NAME##_backward(const float* dy, const float* s, float* dx, int64_t count) { \
    for (int64_t i = 0; i < count; ++i) dx[i] = activate_backward<FUNCTION>(dy[i], s[i]);      \
  }
CPU_ACTIVATION(relu, RT_ACTIVATION_RELU)
CPU_ACTIVATION(gelu, RT_ACTIVATION_GELU)
CPU_ACTIVATION(gelu_tanh, RT_ACTIVATION_GELU_TANH)
CPU_ACTIVATION(tanh, RT_ACTIVATION_TANH)
CPU_ACTIVATION(sigmoid, RT_ACTIVATION_SIGMOID)
#undef CPU_ACTIVATION

template <Binary kOp>
CPU_INLINE float apply(float a, float b) {
  if constexpr (kOp == Binary::kAdd) return a + b;
  if constexpr (kOp == Binary::kSubtract) return a - b;
  if constexpr (kOp == Binary::kMultiply) return a * b;
  return a / b;
}

template <Binary kOp>
CPU_INLINE void binary_loop(const float* a, int64_t a_step, const float* b, int64_t b_step,
                            float* c, int64_t count) {
  if (a_step == 1 && b_step == 1) {
    for (int64_t i = 0; i < count; ++i) c[i] = apply<kOp>(a[i], b[i]);
  } else if (a_step == 1) {
    const float value = *b;
    for (int64_t i = 0; i < count; ++i) c[i] = apply<kOp>(a[i], value);
  } else if (b_step == 1) {
    const float value = *a;
    for (int64_t i = 0; i < count; ++i) c[i] = apply<kOp>(value, b[i]);
  } else {
    const float value = apply<kOp>(*a, *b);
    for (int64_t i = 0; i < count; ++i) c[i] = value;
  }
}

#define CPU_BINARY(NAME, OP)                                                                     \
  CPU_KERNEL void NAME(const float* a, int64_t a_step, const float* b, int64_t b_step, float* c, \
                       int64_t count) {                                                          \
    binary_loop<OP>(a, a_step, b, b_step, c, count);                                             \
  }
CPU_BINARY(add, Binary::kAdd)
CPU_BINARY(subtract, Binary::kSubtract)
CPU_BINARY(multiply, Binary::kMultiply)
CPU_BINARY(divide, Binary::kDivide)
#undef CPU_BINARY

CPU_KERNEL void add_piece(float* y, const float* b, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] += b[i];
}

}  // namespace

void activation(int32_t function, const float* x, float* y, int64_t count) {
  switch (function) {
    case RT_ACTIVATION_RELU:
      return relu_forward(x, y, count);
    case RT_ACTIVATION_GELU:
      return gelu_forward(x, y, count);
    case RT_ACTIVATION_GELU_TANH:
      return gelu_tanh_forward(x, y, count);
    case RT_ACTIVATION_TANH:
      return tanh_forward(x, y, count);
    default:
      return sigmoid_forward(x, y, count);
  }
}

void activation_backward(int32_t function, const float* dy, const float* s, float* dx,
                         int64_t count) {
  switch (function) {
    case RT_ACTIVATION_RELU:
      return relu_backward(dy, s, dx, count);
    case RT_ACTIVATION_GELU:
      return gelu_backward(dy, s, dx, count);
    case RT_ACTIVATION_GELU_TANH:
      return gelu_tanh_backward(dy, s, dx, count);
    case RT_ACTIVATION_TANH:
      return tanh_backward(dy, s, dx, count);
    default:
      return sigmoid_backward(dy, s, dx, count);
  }
}

void binary(Binary op, const float* a, int64_t a_step, const float* b, int64_t b_step, float* c,
            int64_t count) {
  switch (op) {
    case Binary::kAdd:
      return add(a, a_step, b, b_step, c, count);
    case Binary::kSubtract:
      return subtract(a, a_step, b, b_step, c, count);
    case Binary::kMultiply:
      return multiply(a, a_step, b, b_step, c, count);
    case Binary::kDivide:
      return divide(a, a_step, b, b_step, c, count);
  }
}

void add_to(float* y, const float* r, int64_t count) { add_piece(y, r, count); }

void add_bias(float* y, const float* b, int64_t first, int64_t channels, int64_t count) {
  int64_t channel = first % channels;
  for (int64_t i = 0; i < count;) {
    const int64_t length = std::min(channels - channel, count - i);
    add_piece(y + i, b + channel, length);
    i += length;
    channel = 0;
  }
}

CPU_KERNEL void scale(const float* x, float alpha, float beta, float* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] = alpha * x[i] + beta;
}

CPU_KERNEL void fill(float* y, float value, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] = value;
}

CPU_KERNEL double square_sum(const float* x, int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * x[i];
  return sum;
}

}  // namespace backends::cpu::kernels
