// activation, activation_backward, add, subtract, multiply, divide and scale.
#include "backends/reference/activation.h"
#include "backends/reference/families.h"
#include "backends/reference/strided.h"
#include "rt/sdk/broadcast.h"
#include "rt/sdk/post_ops.h"

namespace backends::reference {

void expect_activation(const Operation& op, int64_t function) {
  if (function >= RT_ACTIVATION_RELU && function <= RT_ACTIVATION_RECIPROCAL) return;
  op.fail(rt::sdk::format("activation function is %lld, expected 1 (relu) to 9 (reciprocal)",
                          static_cast<long long>(function)));
}

void expect_differentiable(const Operation& op, int64_t function) {
  expect_activation(op, function);
  if (!rt::sdk::is_forward_only(function)) return;
  throw Refusal(-1, rt::sdk::format("%s: function %lld is one of the operation activation alone; "
                                    "emit it there, and its gradient as products",
                                    op.desc().name, static_cast<long long>(function)));
}

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

template <typename T>
std::function<void(const Buffers&)> arithmetic(const Operation& op, const Dims& dims, const Dims& a,
                                               const Dims& b) {
  if (op.is(RT_OP_ADD)) return binary<T>(dims, a, b, [](T x, T y) { return x + y; });
  if (op.is(RT_OP_SUBTRACT)) return binary<T>(dims, a, b, [](T x, T y) { return x - y; });
  if (op.is(RT_OP_MULTIPLY)) return binary<T>(dims, a, b, [](T x, T y) { return x * y; });
  return binary<T>(dims, a, b, [](T x, T y) { return x / y; });
}

}  // namespace

Kernel make_activation(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "x");
  expect_counts(op, 1, 1);
  expect_output(op, 0, "y", dtype, dims_of(op.input(0)));
  const int64_t function = op.integer(RT_ATTR_FUNCTION);
  expect_activation(op, function);
  const int64_t count = rt::sdk::element_count(op.input(0));
  return for_floating(dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.in_place[0] = 1u << 0;
    kernel.run = [count, function](const Buffers& b) {
      with_activation(function, [&](auto f) {
        const T* x = b.input<T>(0);
        T* y = b.output<T>(0);
        for (int64_t i = 0; i < count; ++i) y[i] = static_cast<T>(f.value(x[i]));
      });
    };
    return kernel;
  });
}

Kernel make_activation_backward(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "dy");
  expect_counts(op, 2, 1);
  expect_input(op, 1, "s", dtype, dims_of(op.input(0)));
  expect_output(op, 0, "dx", dtype, dims_of(op.input(0)));
  const int64_t function = op.integer(RT_ATTR_FUNCTION);
  expect_differentiable(op, function);
  const int64_t count = rt::sdk::element_count(op.input(0));
  return for_floating(dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.in_place[0] = 1u << 0 | 1u << 1;
    kernel.run = [count, function](const Buffers& b) {
      with_differentiable(function, [&](auto f) {
        const T* dy = b.input<T>(0);
        const T* s = b.input<T>(1);
        T* dx = b.output<T>(0);
        for (int64_t i = 0; i < count; ++i) dx[i] = static_cast<T>(f.backward(dy[i], s[i]));
      });
    };
    return kernel;
  });
}

Kernel make_arithmetic(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "a");
  const rt::sdk::BroadcastShape s = rt::sdk::broadcast_shape(op, dtype);
  return for_floating(dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.in_place[0] = s.in_place;
    kernel.run = arithmetic<T>(op, s.dims, s.a, s.b);
    return kernel;
  });
}

Kernel make_scale(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "x");
  expect_counts(op, 1, 1);
  expect_output(op, 0, "y", dtype, dims_of(op.input(0)));
  const double alpha = op.number(RT_ATTR_ALPHA, 1.0), beta = op.number(RT_ATTR_BETA, 0.0);
  const int64_t count = rt::sdk::element_count(op.input(0));
  return for_floating(dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.in_place[0] = 1u << 0;
    kernel.run = [=](const Buffers& b) {
      const T* x = b.input<T>(0);
      T* y = b.output<T>(0);
      for (int64_t i = 0; i < count; ++i) y[i] = static_cast<T>(alpha * x[i] + beta);
    };
    return kernel;
  });
}

}  // namespace backends::reference
