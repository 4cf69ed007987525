// sgd and adamw, in place. lr, scale and step are read on the device, because they change from step
// to step.
#include "backends/gpu/vector_kernel.h"
#include "backends/gpu/work.h"

namespace backends::gpu {
namespace {

// An update that also stores the new parameters in 16 bits.
template <typename Update, typename N16>
struct WithNarrow : Update {
  N16* narrow;
  template <int N>
  GPU_DEVICE void store(int64_t i, typename Update::template Loaded<N> x,
                        const typename Update::State& state) const {
    const auto param = Update::template store<N>(i, x, state);
    Pack<N16, N> narrowed;
    GPU_UNROLL
    for (int k = 0; k < N; ++k) {
      narrowed.value[k] = static_cast<N16>(static_cast<float>(param.value[k]));
    }
    gpu::store<N>(narrow + i, narrowed);
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
// `in_vectors`: are the other operands aligned?
template <typename Update>
void queue(const Launch& l, int64_t count, bool in_vectors, const Update& update, rt_dtype dtype,
           uint32_t index, const char* name) {
  using T = std::remove_pointer_t<decltype(update.result)>;
  if constexpr (std::is_same_v<typename Update::C, float>) {
    const auto with = [&]<typename N16>() {
      N16* const narrow = l.output<N16>(index);
      for_vectors<kVector<T>>(l, count, in_vectors && aligned({narrow}),
                              WithNarrow<Update, N16>{update, narrow}, name);
    };
    if (dtype == RT_FLOAT16) return with.template operator()<Float16>();
    if (dtype == RT_BFLOAT16) return with.template operator()<BFloat16>();
  }
  for_vectors<kVector<T>>(l, count, in_vectors, update, name);
}

template <typename T>
struct Sgd {
  using C = Compute<T>;
  const T *param, *grad, *lr, *scale, *velocity;  // velocity is null without momentum
  T *result, *new_velocity;
  C momentum, weight_decay;
  bool nesterov;

  static constexpr bool kWhole = false;
  static constexpr int kAhead = 2;
  struct State {
    C rate, scale;
  };
  GPU_DEVICE State begin() const { return {static_cast<C>(*lr), static_cast<C>(*scale)}; }
  template <int N>
  struct Loaded {
    Pack<T, N> param, grad, velocity;
  };
  template <int N>
  GPU_DEVICE void load(int64_t i, Loaded<N>& loaded) const {
    loaded.param = gpu::load<N>(param + i);
    loaded.grad = gpu::load<N>(grad + i);
    if (velocity) loaded.velocity = gpu::load<N>(velocity + i);
  }
  // Returns the new parameters.
  template <int N>
  GPU_DEVICE Pack<T, N> store(int64_t i, Loaded<N> x, const State& state) const {
    if (state.scale != C(0)) {  // else a step without an update
      GPU_UNROLL
      for (int k = 0; k < N; ++k)
        update(x.param.value[k], x.grad.value[k], x.velocity.value[k], state);
    }
    gpu::store<N>(result + i, x.param);
    if (velocity) gpu::store<N>(new_velocity + i, x.velocity);
    return x.param;
  }

 private:
  GPU_DEVICE void update(T& param_of, T gradient, T& velocity_of, const State& state) const {
    const C p = static_cast<C>(param_of);
    C g = state.scale * static_cast<C>(gradient);
    if (weight_decay != C(0)) g += weight_decay * p;  // else 0 times infinity would give NaN
    C step = g;
    if (velocity) {
      const C v = momentum * static_cast<C>(velocity_of) + g;
      velocity_of = static_cast<T>(v);
      step = nesterov ? g + momentum * v : v;
    }
    param_of = static_cast<T>(p - state.rate * step);
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
    kernel.work = work_unless_empty(op, count);
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
      const bool vectors =
          aligned({sgd.param, sgd.grad, sgd.velocity, sgd.result, sgd.new_velocity});
      queue(l, count, vectors, sgd, narrow, outputs, "sgd");
    };
    return kernel;
  });
}

// base^exponent for exponent >= 0, by squaring: about 40 dependent products at a million, where the
// library's pow takes hundreds of instructions.
GPU_DEVICE double power(double base, int64_t exponent) {
  double result = 1;
  for (int64_t rest = exponent; rest > 0; rest >>= 1) {
    if (rest & 1) result *= base;
    base *= base;
  }
  return result;
}

// Loshchilov and Hutter, "Decoupled weight decay regularization", 2019.
template <typename T>
struct AdamW {
  using C = Compute<T>;
  const T *param, *grad, *lr, *scale, *m, *v;
  const int64_t* step;
  T *result, *new_m, *new_v;
  double decay1, decay2;  // beta1 and beta2, for the powers
  C beta1, beta2, rest1, rest2, epsilon, weight_decay;

  static constexpr bool kWhole = false;
  static constexpr int kAhead = 1;  // four loads each
  struct State {
    C rate, scale;
    C correction1, correction2;  // 1 - beta^step
  };
  // One thread of each block computes the powers, so that no kernel of its own has to.
  GPU_DEVICE State begin() const {
    __shared__ C corrections[2];
    if (threadIdx.x == 0) {
      corrections[0] = static_cast<C>(1.0 - power(decay1, *step));
      corrections[1] = static_cast<C>(1.0 - power(decay2, *step));
    }
    __syncthreads();
    return {static_cast<C>(*lr), static_cast<C>(*scale), corrections[0], corrections[1]};
  }
  template <int N>
  struct Loaded {
    Pack<T, N> param, grad, m, v;
  };
  template <int N>
  GPU_DEVICE void load(int64_t i, Loaded<N>& loaded) const {
    loaded.param = gpu::load<N>(param + i);
    loaded.grad = gpu::load<N>(grad + i);
    loaded.m = gpu::load<N>(m + i);
    loaded.v = gpu::load<N>(v + i);
  }
  // Returns the new parameters.
  template <int N>
  GPU_DEVICE Pack<T, N> store(int64_t i, Loaded<N> x, const State& state) const {
    if (state.scale != C(0)) {  // else a step without an update
      GPU_UNROLL
      for (int k = 0; k < N; ++k) {
        update(x.param.value[k], x.grad.value[k], x.m.value[k], x.v.value[k], state);
      }
    }
    gpu::store<N>(result + i, x.param);
    gpu::store<N>(new_m + i, x.m);
    gpu::store<N>(new_v + i, x.v);
    return x.param;
  }

 private:
  GPU_DEVICE void update(T& param_of, T gradient, T& m_of, T& v_of, const State& state) const {
    const C g = state.scale * static_cast<C>(gradient), p = static_cast<C>(param_of);
    const C next_m = beta1 * static_cast<C>(m_of) + rest1 * g;
    const C next_v = beta2 * static_cast<C>(v_of) + rest2 * g * g;
    const C size = (next_m / state.correction1) / (sqrt_of(next_v / state.correction2) + epsilon);
    m_of = static_cast<T>(next_m);
    v_of = static_cast<T>(next_v);
    param_of = static_cast<T>((C(1) - state.rate * weight_decay) * p - state.rate * size);
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
    kernel.work = work_unless_empty(op, count);
    kernel.run = [=](const Launch& l) {
      const AdamW<T> adamw{l.input<T>(0),
                           l.input<T>(1),
                           l.input<T>(2),
                           l.input<T>(3),
                           l.input<T>(4),
                           l.input<T>(5),
                           l.input<int64_t>(6),
                           l.output<T>(0),
                           l.output<T>(1),
                           l.output<T>(2),
                           beta1,
                           beta2,
                           static_cast<C>(beta1),
                           static_cast<C>(beta2),
                           static_cast<C>(1.0 - beta1),
                           static_cast<C>(1.0 - beta2),
                           static_cast<C>(epsilon),
                           static_cast<C>(decay)};
      const bool vectors = aligned(
          {adamw.param, adamw.grad, adamw.m, adamw.v, adamw.result, adamw.new_m, adamw.new_v});
      queue(l, count, vectors, adamw, narrow, 3, "adamw");
    };
    return kernel;
  });
}

constexpr Entry kEntries[] = {{RT_OP_SGD, make_sgd}, {RT_OP_ADAMW, make_adamw}};

}  // namespace

Family optimizer_family() { return {kEntries, std::size(kEntries)}; }

}  // namespace backends::gpu
