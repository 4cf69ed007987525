// gated_activation, its gradient, and rotary: what the blocks of a Llama have beside products,
// attention and normalisations.
#include "backends/gpu/activation.h"
#include "backends/gpu/divisor.h"
#include "backends/gpu/vector_kernel.h"
#include "backends/gpu/work.h"
#include "rt/sdk/rotary.h"

namespace backends::gpu {
namespace {

// y = f(gate) up
template <typename T, int32_t kFunction>
struct Gate : Stateless {
  const T *gate, *up;
  T* y;
  explicit Gate(const Launch& l) : gate(l.input<T>(0)), up(l.input<T>(1)), y(l.output<T>(0)) {}

  template <int N>
  struct Loaded {
    Pack<T, N> gate, up;
  };
  template <int N>
  GPU_DEVICE void load(int64_t i, Loaded<N>& loaded) const {
    loaded.gate = gpu::load<N>(gate + i);
    loaded.up = gpu::load<N>(up + i);
  }
  template <int N>
  GPU_DEVICE void store(int64_t i, const Loaded<N>& loaded, NoState) const {
    Compute<T> g[N], u[N];
    widen<T, N>(loaded.gate, g);
    widen<T, N>(loaded.up, u);
    GPU_UNROLL
    for (int k = 0; k < N; ++k) u[k] *= value_of<kFunction, T>(g[k]);
    gpu::store<N>(y + i, narrow<T, N>(u));
  }
};

// dy times the derivative of f where both x and y = f(x) are known. Near 1, y itself has few digits
// of the derivatives of tanh, 4 sigmoid(2 x) sigmoid(-2 x), and of sigmoid.
template <int32_t kFunction, typename T>
GPU_DEVICE Compute<T> gradient_of(Compute<T> dy, Compute<T> x, Compute<T> y) {
  using C = Compute<T>;
  if constexpr (kFunction == RT_ACTIVATION_TANH) {
    return dy * C(4) * value_of<RT_ACTIVATION_SIGMOID, T>(C(2) * x) *
           value_of<RT_ACTIVATION_SIGMOID, T>(C(-2) * x);
  } else if constexpr (kFunction == RT_ACTIVATION_SIGMOID) {
    return dy * y * value_of<RT_ACTIVATION_SIGMOID, T>(-x);
  } else {
    return gpu::gradient_of<kFunction, T>(dy, kFunction == RT_ACTIVATION_RELU ? y : x);
  }
}

// dgate = dy up f'(gate) and dup = dy f(gate)
template <typename T, int32_t kFunction>
struct GateGradient : Stateless {
  const T *dy, *gate, *up;
  T *dgate, *dup;
  explicit GateGradient(const Launch& l)
      : dy(l.input<T>(0)),
        gate(l.input<T>(1)),
        up(l.input<T>(2)),
        dgate(l.output<T>(0)),
        dup(l.output<T>(1)) {}

  template <int N>
  struct Loaded {
    Pack<T, N> dy, gate, up;
  };
  template <int N>
  GPU_DEVICE void load(int64_t i, Loaded<N>& loaded) const {
    loaded.dy = gpu::load<N>(dy + i);
    loaded.gate = gpu::load<N>(gate + i);
    loaded.up = gpu::load<N>(up + i);
  }
  template <int N>
  GPU_DEVICE void store(int64_t i, const Loaded<N>& loaded, NoState) const {
    Compute<T> d[N], g[N], u[N];
    widen<T, N>(loaded.dy, d);
    widen<T, N>(loaded.gate, g);
    widen<T, N>(loaded.up, u);
    GPU_UNROLL
    for (int k = 0; k < N; ++k) {
      const Compute<T> f = value_of<kFunction, T>(g[k]);
      u[k] = gradient_of<kFunction, T>(d[k] * u[k], g[k], f);
      d[k] *= f;
    }
    gpu::store<N>(dgate + i, narrow<T, N>(u));
    gpu::store<N>(dup + i, narrow<T, N>(d));
  }
};

// Calls body.operator()<function>() with the function of that number.
template <typename Body>
Kernel for_gate(int64_t function, Body&& body) {
  return for_function<RT_ACTIVATION_RELU, RT_ACTIVATION_GELU, RT_ACTIVATION_GELU_TANH,
                      RT_ACTIVATION_TANH, RT_ACTIVATION_SIGMOID, RT_ACTIVATION_SILU>(function,
                                                                                     body);
}

Kernel make_gated_activation(const Properties&, const Operation& op) {
  const int64_t count = rt::sdk::element_count(op.input(0));
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    return for_gate(op.integer(RT_ATTR_FUNCTION), [&]<int32_t kFunction>() {
      Kernel kernel;
      kernel.run = [=](const Launch& l) {
        for_vectors<kVector<T>>(l, count, aligned({l.inputs[0], l.inputs[1], l.outputs[0]}),
                                Gate<T, kFunction>(l), "gated_activation");
      };
      return kernel;
    });
  });
}

Kernel make_gated_activation_backward(const Properties&, const Operation& op) {
  const int64_t count = rt::sdk::element_count(op.input(0));
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    return for_gate(op.integer(RT_ATTR_FUNCTION), [&]<int32_t kFunction>() {
      Kernel kernel;
      kernel.run = [=](const Launch& l) {
        for_vectors<kVector<T>>(
            l, count, aligned({l.inputs[0], l.inputs[1], l.inputs[2], l.outputs[0], l.outputs[1]}),
            GateGradient<T, kFunction>(l), "gated_activation_backward");
      };
      return kernel;
    });
  });
}

// Turns pairs of columns. A thread computes kUnit neighbouring pairs, or copies as many of the
// columns that are not turned: a head has `tasks` of them.
template <typename T, int kUnit>
struct Rotary : WholeVectors {
  using C = Compute<T>;
  const T* x;
  const C* turns;
  T* y;
  Divisor tasks, heads, turn_rows;  // tasks in units of kUnit
  int64_t width, half;              // in columns
  C sign;
  Rotary(const Launch& l, const rt::sdk::RotaryShape& s)
      : x(l.input<T>(0)),
        turns(l.input<C>(1)),
        y(l.output<T>(0)),
        tasks((s.width - s.half) / kUnit),
        heads(s.heads),
        turn_rows(s.turn_rows),
        width(s.width),
        half(s.half),
        sign(s.inverse ? C(-1) : C(1)) {}

  // Where a task begins: its first column and that of the other half.
  struct Place {
    int64_t head, column;
    bool turned;
  };
  GPU_DEVICE Place place(int64_t i) const {
    const int64_t task = i / kUnit, head = tasks.quotient(task),
                  column = (task - head * tasks.value()) * kUnit;
    return {head, column, column < half};
  }

  template <int N>
  struct Loaded {
    Pack<T, N> first, second;
    Pack<C, N> cosines, sines;
  };
  template <int N>
  GPU_DEVICE void load(int64_t i, Loaded<N>& loaded) const {
    const Place at = place(i);
    const T* const from = x + at.head * width + at.column;
    loaded.second = gpu::load<N>(from + half);
    if (!at.turned) return;
    const C* const row =
        turns + turn_rows.remainder(heads.quotient(at.head)) * 2 * half + at.column;
    loaded.first = gpu::load<N>(from);
    loaded.cosines = gpu::load<N>(row);
    loaded.sines = gpu::load<N>(row + half);
  }
  template <int N>
  GPU_DEVICE void store(int64_t i, const Loaded<N>& loaded, NoState) const {
    const Place at = place(i);
    T* const to = y + at.head * width + at.column;
    if (!at.turned) return gpu::store<N>(to + half, loaded.second);
    C a[N], b[N];
    widen<T, N>(loaded.first, a);
    widen<T, N>(loaded.second, b);
    GPU_UNROLL
    for (int k = 0; k < N; ++k) {
      const C cosine = loaded.cosines.value[k], sine = sign * loaded.sines.value[k], first = a[k];
      a[k] = first * cosine - b[k] * sine;
      b[k] = b[k] * cosine + first * sine;
    }
    gpu::store<N>(to, narrow<T, N>(a));
    gpu::store<N>(to + half, narrow<T, N>(b));
  }
};

Kernel make_rotary(const Properties&, const Operation& op) {
  const rt_dtype type = op.input(0).dtype;
  const auto s = rt::sdk::rotary_shape(op, type, op.input(1).dtype);
  const int64_t count = s.rows * s.heads * (s.width - s.half);
  return for_floating(type, [&]<typename T>() {
    constexpr int kUnit = kVector<T>;
    const bool fits = s.half % kUnit == 0 && s.width % kUnit == 0;
    Kernel kernel;
    kernel.work = work_unless_empty(op, count);
    kernel.run = [=](const Launch& l) {
      if (fits && aligned({l.inputs[0], l.inputs[1], l.outputs[0]})) {
        for_vectors<kUnit>(l, count, true, Rotary<T, kUnit>(l, s), "rotary");
      } else {
        for_vectors<1>(l, count, true, Rotary<T, 1>(l, s), "rotary");
      }
    };
    return kernel;
  });
}

constexpr Entry kEntries[] = {
    {RT_OP_GATED_ACTIVATION, make_gated_activation},
    {RT_OP_GATED_ACTIVATION_BACKWARD, make_gated_activation_backward},
    {RT_OP_ROTARY, make_rotary},
};

}  // namespace

Family gate_family() { return {kEntries, std::size(kEntries)}; }

}  // namespace backends::gpu
