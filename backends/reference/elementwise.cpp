// activation, gated_activation, their gradients, add, subtract, multiply, divide and scale.
#include "rt/sdk/elementwise.h"

#include <functional>

#include "backends/reference/activation.h"
#include "backends/reference/families.h"
#include "backends/reference/strided.h"
#include "rt/sdk/broadcast.h"

namespace backends::reference {

namespace {

template <typename T, typename Function>
std::function<void(const Buffers&)> binary(const Dims& dims, const Dims& a, const Dims& b,
                                           Function function) {
  return [rows = StridedRows<2>(dims, {a, b}), function](const Buffers& buffers) {
    const T* left = buffers.input<T>(0);
    const T* right = buffers.input<T>(1);
    T* result = buffers.output<T>(0);
    rows.for_each([&](int64_t out, const std::array<int64_t, 2>& in) {
      const int64_t step_a = rows.step(0), step_b = rows.step(1);
      for (int64_t i = 0; i < rows.length(); ++i) {
        result[out + i] = function(left[in[0] + i * step_a], right[in[1] + i * step_b]);
      }
    });
  };
}

template <typename Function>
Kernel make_binary(const Operation& op, Function function) {
  const rt_dtype dtype = floating_input(op, 0, "a");
  const rt::sdk::BroadcastShape s = rt::sdk::broadcast_shape(op, dtype);
  return for_floating(dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.in_place[0] = s.in_place;
    kernel.run = binary<T>(s.dims, s.a, s.b, function);
    return kernel;
  });
}

}  // namespace

Kernel make_activation(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "x");
  const auto s = rt::sdk::activation_shape(op, dtype);
  const Kernel needs{.in_place = {1u << 0}};
  return floating_kernel(dtype, needs, [s]<typename T>(const Buffers& b) {
    with_activation(s.function, [&](auto f) {
      const T* x = b.input<T>(0);
      T* y = b.output<T>(0);
      for (int64_t i = 0; i < s.count; ++i) y[i] = static_cast<T>(f.value(x[i]));
    });
  });
}

Kernel make_activation_backward(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "dy");
  const auto s = rt::sdk::activation_backward_shape(op, dtype);
  const Kernel needs{.in_place = {1u << 0 | 1u << 1}};
  return floating_kernel(dtype, needs, [s]<typename T>(const Buffers& b) {
    with_differentiable(s.function, [&](auto f) {
      const T* dy = b.input<T>(0);
      const T* saved = b.input<T>(1);
      T* dx = b.output<T>(0);
      for (int64_t i = 0; i < s.count; ++i) dx[i] = static_cast<T>(f.backward(dy[i], saved[i]));
    });
  });
}

Kernel make_gated_activation(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "gate");
  const auto s = rt::sdk::gated_activation_shape(op, dtype);
  const Kernel needs{.in_place = {1u << 0 | 1u << 1}};
  return floating_kernel(dtype, needs, [s]<typename T>(const Buffers& b) {
    with_gate(s.function, [&](auto f) {
      const T *gate = b.input<T>(0), *up = b.input<T>(1);
      T* y = b.output<T>(0);
      for (int64_t i = 0; i < s.count; ++i) y[i] = static_cast<T>(f.value(gate[i]) * up[i]);
    });
  });
}

Kernel make_gated_activation_backward(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "dy");
  const auto s = rt::sdk::gated_activation_backward_shape(op, dtype);
  constexpr uint32_t kAny = 1u << 0 | 1u << 1 | 1u << 2;
  const Kernel needs{.in_place = {kAny, kAny}};
  return floating_kernel(dtype, needs, [s]<typename T>(const Buffers& b) {
    with_gate(s.function, [&](auto f) {
      const T *dy = b.input<T>(0), *gate = b.input<T>(1), *up = b.input<T>(2);
      T *dgate = b.output<T>(0), *dup = b.output<T>(1);
      for (int64_t i = 0; i < s.count; ++i) {
        const double g = gate[i], d = dy[i], y = f.value(g);
        const double operand = requires { f.kOfInput; }
        ? g : y;
        dgate[i] = static_cast<T>(f.backward(d * up[i], operand));
        dup[i] = static_cast<T>(d * y);
      }
    });
  });
}

Kernel make_add(const Operation& op) { return make_binary(op, std::plus<>()); }
Kernel make_subtract(const Operation& op) { return make_binary(op, std::minus<>()); }
Kernel make_multiply(const Operation& op) { return make_binary(op, std::multiplies<>()); }
Kernel make_divide(const Operation& op) { return make_binary(op, std::divides<>()); }

Kernel make_scale(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "x");
  const int64_t count = rt::sdk::unary_count(op, dtype);
  const double alpha = op.number(RT_ATTR_ALPHA, 1.0), beta = op.number(RT_ATTR_BETA, 0.0);
  const Kernel needs{.in_place = {1u << 0}};
  return floating_kernel(dtype, needs, [=]<typename T>(const Buffers& b) {
    const T* x = b.input<T>(0);
    T* y = b.output<T>(0);
    for (int64_t i = 0; i < count; ++i) y[i] = static_cast<T>(alpha * x[i] + beta);
  });
}

}  // namespace backends::reference
