// sgd and adamw. Each output but `narrow` may share the memory of the input of the same name.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "backends/reference/check.h"
#include "backends/reference/families.h"
#include "backends/reference/sixteen_bit.h"

namespace backends::reference {
namespace {

// Returns the type that the update computes in. Throws Refusal for an input in 16 bits.
rt_dtype type_of(const Operation& op) {
  for (uint32_t i = 0; i < op.input_count(); ++i) {
    if (rt::sdk::is_sixteen_bit(op.input(i).dtype)) refuse_sixteen_bit(op);
  }
  return floating_input(op, 0, "param");
}

// Checks the operands that every optimizer begins with: param, grad, lr, scale.
void expect_common(const Operation& op, rt_dtype dtype) {
  const Dims dims = dims_of(op.input(0));
  expect_input(op, 1, "grad", dtype, dims);
  expect_input(op, 2, "lr", dtype, {1});
  expect_input(op, 3, "scale", dtype, {1});
  expect_output(op, 0, "param", dtype, dims);
}

// Handles a step without an update (scale 0, because gradients are not finite): the outputs become
// copies of the inputs. Outputs after the first belong to input 4 (sgd's velocity) or inputs 4 and
// 5 (adamw's m and v). Returns false, having done nothing, if there is an update.
template <typename T>
bool left_out(const Buffers& b, int64_t count, uint32_t outputs) {
  if (*b.input<T>(3) != 0) return false;
  for (uint32_t i = 0; i < outputs; ++i)
    std::memmove(b.output<T>(i), b.input<T>(i == 0 ? 0 : 3 + i), count * sizeof(T));
  return true;
}

struct Sgd {
  int64_t count;
  double momentum, weight_decay;
  bool nesterov;
};

// scale * grad plus the weight decay of `param`. Without weight decay there is no product with
// `param`, which would be NaN where `param` is infinite or NaN.
double gradient(const Sgd& s, double scale, double grad, double param) {
  const double g = scale * grad;
  return s.weight_decay == 0 ? g : g + s.weight_decay * param;
}

template <typename T>
void sgd(const Sgd& s, const Buffers& b) {
  const T* param = b.input<T>(0);
  const T* grad = b.input<T>(1);
  const double lr = *b.input<T>(2), scale = *b.input<T>(3);
  T* result = b.output<T>(0);
  for (int64_t i = 0; i < s.count; ++i) {
    const double g = gradient(s, scale, grad[i], param[i]);
    result[i] = static_cast<T>(param[i] - lr * g);
  }
}

template <typename T>
void sgd_momentum(const Sgd& s, const Buffers& b) {
  const T* param = b.input<T>(0);
  const T* grad = b.input<T>(1);
  const double lr = *b.input<T>(2), scale = *b.input<T>(3);
  const T* velocity = b.input<T>(4);
  T* result = b.output<T>(0);
  T* new_velocity = b.output<T>(1);
  for (int64_t i = 0; i < s.count; ++i) {
    const double g = gradient(s, scale, grad[i], param[i]);
    const double v = s.momentum * velocity[i] + g;
    result[i] = static_cast<T>(param[i] - lr * (s.nesterov ? g + s.momentum * v : v));
    new_velocity[i] = static_cast<T>(v);
  }
}

struct AdamW {
  int64_t count;
  double beta1, beta2, epsilon, weight_decay;
};

// Loshchilov and Hutter, "Decoupled weight decay regularization", 2019.
template <typename T>
void adamw(const AdamW& a, const Buffers& b) {
  const T* param = b.input<T>(0);
  const T* grad = b.input<T>(1);
  const double lr = *b.input<T>(2), scale = *b.input<T>(3);
  const T* m = b.input<T>(4);
  const T* v = b.input<T>(5);
  const double step = static_cast<double>(*b.input<int64_t>(6));
  const double correction1 = 1.0 - std::pow(a.beta1, step);
  const double correction2 = 1.0 - std::pow(a.beta2, step);
  for (int64_t i = 0; i < a.count; ++i) {
    const double g = scale * grad[i];
    const double decayed = (1.0 - lr * a.weight_decay) * param[i];
    const double new_m = a.beta1 * m[i] + (1.0 - a.beta1) * g;
    const double new_v = a.beta2 * v[i] + (1.0 - a.beta2) * g * g;
    const double step_size = (new_m / correction1) / (std::sqrt(new_v / correction2) + a.epsilon);
    b.output<T>(0)[i] = static_cast<T>(decayed - lr * step_size);
    b.output<T>(1)[i] = static_cast<T>(new_m);
    b.output<T>(2)[i] = static_cast<T>(new_v);
  }
}

// The output `narrow` follows `others` outputs, or is absent.
bool has_narrow(const Operation& op, uint32_t others) { return op.output_count() == others + 1; }

// Adds the output `narrow`, output i, to a kernel: the new parameter, rounded once. Its type is
// float16 or bfloat16, or that of the parameter, so that a judge can compute all of it in float64.
template <typename T>
void write_narrow(const Operation& op, uint32_t i, Kernel& kernel) {
  const rt_dtype wide = op.input(0).dtype, dtype = op.output(i).dtype;
  const bool is_narrow = wide == RT_FLOAT32 && rt::sdk::is_sixteen_bit(dtype);
  expect_output(op, i, "narrow", is_narrow ? dtype : wide, dims_of(op.input(0)));
  const auto add = [&]<typename To>() {
    kernel.run = [i, count = rt::sdk::element_count(op.input(0)),
                  update = std::move(kernel.run)](const Buffers& b) {
      update(b);
      const T* param = b.output<T>(0);
      std::transform(param, param + count, b.output<To>(i),
                     [](T value) { return static_cast<To>(value); });
    };
  };
  if (dtype == RT_FLOAT16) return add.template operator()<Float16>();
  if (dtype == RT_BFLOAT16) return add.template operator()<BFloat16>();
  add.template operator()<T>();
}

void expect_beta(const Operation& op, const char* name, double beta) {
  if (!(beta >= 0 && beta < 1)) {
    op.fail(rt::sdk::format("%s is %g, expected 0 <= %s < 1", name, beta, name));
  }
}

}  // namespace

Kernel make_sgd(const Operation& op) {
  const rt_dtype dtype = type_of(op);
  Sgd s{};
  s.count = rt::sdk::element_count(op.input(0));
  s.momentum = op.number(RT_ATTR_MOMENTUM, 0.0);
  s.weight_decay = op.number(RT_ATTR_WEIGHT_DECAY, 0.0);
  s.nesterov = op.integer(RT_ATTR_NESTEROV, 0) != 0;
  const bool momentum = s.momentum != 0.0;
  const uint32_t outputs = momentum ? 2 : 1;
  const bool narrow = has_narrow(op, outputs);
  expect_counts(op, momentum ? 5 : 4, outputs + narrow);
  expect_common(op, dtype);
  if (momentum) {
    expect_input(op, 4, "velocity", dtype, dims_of(op.input(0)));
    expect_output(op, 1, "velocity", dtype, dims_of(op.input(0)));
  }
  return for_floating(dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.in_place[0] = 1u << 0;
    if (momentum) kernel.in_place[1] = 1u << 4;
    kernel.run = [s, momentum, outputs](const Buffers& b) {
      if (left_out<T>(b, s.count, outputs)) return;
      momentum ? sgd_momentum<T>(s, b) : sgd<T>(s, b);
    };
    if (narrow) write_narrow<T>(op, outputs, kernel);
    return kernel;
  });
}

Kernel make_adamw(const Operation& op) {
  const rt_dtype dtype = type_of(op);
  const bool narrow = has_narrow(op, 3);
  expect_counts(op, 7, 3 + narrow);
  expect_common(op, dtype);
  const Dims dims = dims_of(op.input(0));
  expect_input(op, 4, "m", dtype, dims);
  expect_input(op, 5, "v", dtype, dims);
  expect_input(op, 6, "step", RT_INT64, {1});
  expect_output(op, 1, "m", dtype, dims);
  expect_output(op, 2, "v", dtype, dims);
  const AdamW a{product(dims), op.number(RT_ATTR_BETA1), op.number(RT_ATTR_BETA2),
                op.number(RT_ATTR_EPSILON), op.number(RT_ATTR_WEIGHT_DECAY, 0.0)};
  expect_beta(op, RT_ATTR_BETA1, a.beta1);
  expect_beta(op, RT_ATTR_BETA2, a.beta2);
  return for_floating(dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.in_place = {1u << 0, 1u << 4, 1u << 5};
    kernel.run = [a](const Buffers& b) {
      if (!left_out<T>(b, a.count, 3)) adamw<T>(a, b);
    };
    if (narrow) write_narrow<T>(op, 3, kernel);
    return kernel;
  });
}

}  // namespace backends::reference
