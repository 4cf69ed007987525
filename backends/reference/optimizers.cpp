// sgd and adamw. Each output but `narrow` may share the memory of the input of the same name.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "backends/reference/check.h"
#include "backends/reference/families.h"
#include "backends/reference/sixteen_bit.h"
#include "rt/sdk/updates.h"

namespace backends::reference {
namespace {

using rt::sdk::AdamWUpdate;
using rt::sdk::SgdUpdate;

// Returns the type that the update computes in. Throws Refusal for an input in 16 bits.
rt_dtype type_of(const Operation& op) {
  for (uint32_t i = 0; i < op.input_count(); ++i) {
    if (rt::sdk::is_sixteen_bit(op.input(i).dtype)) refuse_sixteen_bit(op);
  }
  return floating_input(op, 0, "param");
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

// scale * grad plus the weight decay of `param`. Without weight decay there is no product with
// `param`, which would be NaN where `param` is infinite or NaN.
double gradient(const SgdUpdate& s, double scale, double grad, double param) {
  const double g = scale * grad;
  return s.weight_decay == 0 ? g : g + s.weight_decay * param;
}

template <typename T>
void sgd(const SgdUpdate& s, const Buffers& b) {
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
void sgd_momentum(const SgdUpdate& s, const Buffers& b) {
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

// Loshchilov and Hutter, "Decoupled weight decay regularization", 2019.
template <typename T>
void adamw(const AdamWUpdate& a, const Buffers& b) {
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

}  // namespace

Kernel make_sgd(const Operation& op) {
  const rt_dtype dtype = type_of(op);
  const SgdUpdate s = rt::sdk::sgd_update(op, dtype);
  return for_floating(dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.in_place[0] = 1u << 0;
    if (s.states > 0) kernel.in_place[1] = 1u << 4;
    kernel.run = [s](const Buffers& b) {
      if (left_out<T>(b, s.count, 1 + s.states)) return;
      s.states > 0 ? sgd_momentum<T>(s, b) : sgd<T>(s, b);
    };
    if (s.writes_narrow) write_narrow<T>(op, 1 + s.states, kernel);
    return kernel;
  });
}

Kernel make_adamw(const Operation& op) {
  const rt_dtype dtype = type_of(op);
  const AdamWUpdate a = rt::sdk::adamw_update(op, dtype);
  return for_floating(dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.in_place = {1u << 0, 1u << 4, 1u << 5};
    kernel.run = [a](const Buffers& b) {
      if (!left_out<T>(b, a.count, 1 + a.states)) adamw<T>(a, b);
    };
    if (a.writes_narrow) write_narrow<T>(op, 1 + a.states, kernel);
    return kernel;
  });
}

}  // namespace backends::reference
