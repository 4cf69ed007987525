// sgd and adamw, in place. lr, scale and step are read on the device, because they change from step
// to step.
#include "backends/gpu/rows.h"

namespace backends::gpu {
namespace {

// An update that also stores the new parameter in 16 bits.
template <typename Update, typename N>
struct WithNarrow {
  Update update;
  N* narrow;
  GPU_DEVICE void operator()(int64_t i) const {
    update(i);
    narrow[i] = static_cast<N>(static_cast<float>(update.result[i]));
  }
};

// The type of the output `narrow`, output `index`; 0 if there is none.
rt_dtype narrow_type(const Operation& op, uint32_t index) {
  if (op.output_count() == index) return 0;
  const rt_dtype dtype = op.output(index).dtype;
  if (rt::sdk::is_sixteen_bit(dtype)) return dtype;
  throw rt::sdk::Error(RT_ERROR_UNSUPPORTED,
                       std::string(op.name()) + " writes a copy of param in 16 bits only");
}

// Queues an update with its output `narrow`, which has type `dtype` (0: there is none).
template <typename Update>
void queue(const Launch& l, int64_t count, const Update& update, rt_dtype dtype, uint32_t index,
           const char* name) {
  if constexpr (std::is_same_v<typename Update::C, float>) {
    const auto with = [&]<typename N>() {
      for_each(l, count, WithNarrow<Update, N>{update, l.output<N>(index)}, name);
    };
    if (dtype == RT_FLOAT16) return with.template operator()<Float16>();
    if (dtype == RT_BFLOAT16) return with.template operator()<BFloat16>();
  }
  for_each(l, count, update, name);
}

template <typename T>
struct Sgd {
  using C = Compute<T>;
  const T *param, *grad, *lr, *scale, *velocity;
  T *result, *new_velocity;
  C momentum, weight_decay;
  bool nesterov;
  GPU_DEVICE void operator()(int64_t i) const {
    if (static_cast<C>(*scale) == C(0)) {  // a step without an update
      result[i] = param[i];
      if (velocity) new_velocity[i] = velocity[i];
      return;
    }
    const C p = static_cast<C>(param[i]);
    C g = static_cast<C>(*scale) * static_cast<C>(grad[i]);
    if (weight_decay != C(0)) g += weight_decay * p;  // else 0 times infinity would give NaN
    C step = g;
    if (velocity) {
      const C v = momentum * static_cast<C>(velocity[i]) + g;
      new_velocity[i] = static_cast<T>(v);
      step = nesterov ? g + momentum * v : v;
    }
    result[i] = static_cast<T>(p - static_cast<C>(*lr) * step);
  }
};

Kernel make_sgd(const Properties&, const Operation& op) {
  const int64_t count = rt::sdk::element_count(op.input(0));
  const double momentum = op.number(RT_ATTR_MOMENTUM, 0.0),
               decay = op.number(RT_ATTR_WEIGHT_DECAY, 0.0);
  const bool nesterov = op.integer(RT_ATTR_NESTEROV, 0) != 0;
  const uint32_t outputs = momentum != 0.0 ? 2 : 1;
  const rt_dtype narrow = narrow_type(op, outputs);
  return for_wide(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    Kernel kernel;
    kernel.run = [=](const Launch& l) {
      Sgd<T> sgd{l.input<T>(0),
                 l.input<T>(1),
                 l.input<T>(2),
                 l.input<T>(3),
                 nullptr,
                 l.output<T>(0),
                 nullptr,
                 static_cast<C>(momentum),
                 static_cast<C>(decay),
                 nesterov};
      if (momentum != 0.0) {
        sgd.velocity = l.input<T>(4);
        sgd.new_velocity = l.output<T>(1);
      }
      queue(l, count, sgd, narrow, outputs, "sgd");
    };
    return kernel;
  });
}

// Loshchilov and Hutter, "Decoupled weight decay regularization", 2019. One thread computes 1 -
// beta^step once per launch and stores it in the workspace.
template <typename C>
struct Corrections {
  const int64_t* step;
  C* to;
  double beta1, beta2;
  GPU_DEVICE void operator()(int64_t) const {
    to[0] = static_cast<C>(1.0 - pow(beta1, static_cast<double>(*step)));
    to[1] = static_cast<C>(1.0 - pow(beta2, static_cast<double>(*step)));
  }
};

template <typename T>
struct AdamW {
  using C = Compute<T>;
  const T *param, *grad, *lr, *scale, *m, *v;
  T *result, *new_m, *new_v;
  const C* corrections;
  C beta1, beta2, rest1, rest2, epsilon, weight_decay;
  GPU_DEVICE void operator()(int64_t i) const {
    if (static_cast<C>(*scale) == C(0)) {  // a step without an update
      result[i] = param[i];
      new_m[i] = m[i];
      new_v[i] = v[i];
      return;
    }
    const C rate = static_cast<C>(*lr), g = static_cast<C>(*scale) * static_cast<C>(grad[i]);
    const C p = static_cast<C>(param[i]);
    const C next_m = beta1 * static_cast<C>(m[i]) + rest1 * g;
    const C next_v = beta2 * static_cast<C>(v[i]) + rest2 * g * g;
    const C size = (next_m / corrections[0]) / (sqrt_of(next_v / corrections[1]) + epsilon);
    new_m[i] = static_cast<T>(next_m);
    new_v[i] = static_cast<T>(next_v);
    result[i] = static_cast<T>((C(1) - rate * weight_decay) * p - rate * size);
  }
};

Kernel make_adamw(const Properties&, const Operation& op) {
  const int64_t count = rt::sdk::element_count(op.input(0));
  const double beta1 = op.number(RT_ATTR_BETA1), beta2 = op.number(RT_ATTR_BETA2);
  const double epsilon = op.number(RT_ATTR_EPSILON), decay = op.number(RT_ATTR_WEIGHT_DECAY, 0.0);
  const rt_dtype narrow = narrow_type(op, 3);
  return for_wide(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    Kernel kernel;
    kernel.workspace_bytes = 2 * sizeof(C);
    kernel.work = {{"adamw corrections", sizeof(int64_t) + 2 * sizeof(C)}};
    if (count > 0) {
      const double each = 7 * sizeof(T) + (narrow == 0 ? 0 : sizeof(Float16));
      kernel.work.push_back({"adamw", static_cast<double>(count) * each});
    }
    kernel.run = [=](const Launch& l) {
      C* const corrections = static_cast<C*>(l.workspace);
      for_each(l, 1, Corrections<C>{l.input<int64_t>(6), corrections, beta1, beta2}, "adamw");
      queue(l, count,
            AdamW<T>{l.input<T>(0), l.input<T>(1), l.input<T>(2), l.input<T>(3), l.input<T>(4),
                     l.input<T>(5), l.output<T>(0), l.output<T>(1), l.output<T>(2), corrections,
                     static_cast<C>(beta1), static_cast<C>(beta2), static_cast<C>(1.0 - beta1),
                     static_cast<C>(1.0 - beta2), static_cast<C>(epsilon), static_cast<C>(decay)},
            narrow, 3, "adamw");
    };
    return kernel;
  });
}

constexpr Entry kEntries[] = {{RT_OP_SGD, make_sgd}, {RT_OP_ADAMW, make_adamw}};

}  // namespace

Family optimizer_family() { return {kEntries, std::size(kEntries)}; }

}  // namespace backends::gpu
