// activation, activation_backward, add, subtract, multiply, divide, scale, dropout.
#include "backends/gpu/device_code.h"
#include "backends/gpu/philox.h"
#include "backends/gpu/post_ops.h"

namespace backends::gpu {
namespace {

// 16 bytes, which one instruction loads or stores.
template <typename T>
struct alignas(16) Pack {
  static constexpr int kCount = 16 / sizeof(T);
  T value[kCount];
};

// y[i] = f(x[i], s[i]); s may be x. Whole packs come first, then the remaining elements one by one.
template <typename T, typename Function>
GPU_KERNEL void map_kernel(const T* x, const T* s, T* y, int64_t count, Function f) {
  using C = Compute<T>;
  const int64_t packs = count / Pack<T>::kCount;
  for (int64_t i = global_thread(); i < packs; i += global_threads()) {
    const Pack<T> a = reinterpret_cast<const Pack<T>*>(x)[i];
    const Pack<T> b = reinterpret_cast<const Pack<T>*>(s)[i];
    Pack<T> r;
    for (int k = 0; k < Pack<T>::kCount; ++k) {
      r.value[k] = static_cast<T>(f(static_cast<C>(a.value[k]), static_cast<C>(b.value[k])));
    }
    reinterpret_cast<Pack<T>*>(y)[i] = r;
  }
  for (int64_t i = packs * Pack<T>::kCount + global_thread(); i < count; i += global_threads()) {
    y[i] = static_cast<T>(f(static_cast<C>(x[i]), static_cast<C>(s[i])));
  }
}

template <typename T, typename Function>
void map(const Launch& l, const void* x, const void* s, int64_t count, Function f) {
  if (count == 0) return;
  GPU_LAUNCH((map_kernel<T, Function>), dim3(grid_for(count, Pack<T>::kCount)), dim3(kBlock),
             l.stream, static_cast<const T*>(x), static_cast<const T*>(s), l.output<T>(0), count,
             f);
  check_launch("map");
}

// The functions of activate(), and those that only the operation `activation` has.
template <typename C>
GPU_DEVICE C evaluate(int32_t function, C x) {
  switch (function) {
    case RT_ACTIVATION_EXP:
      return exp_of(x);
    case RT_ACTIVATION_LOG:
      return log_of(x);
    case RT_ACTIVATION_SQRT:
      return sqrt_of(x);
    case RT_ACTIVATION_RECIPROCAL:
      return C(1) / x;
    default:
      return activate(function, x);
  }
}

template <typename C>
struct Activate {
  int32_t function;
  GPU_DEVICE C operator()(C x, C) const { return evaluate(function, x); }
};
template <typename C>
struct ActivateBackward {
  int32_t function;
  GPU_DEVICE C operator()(C dy, C s) const { return activate_backward(function, dy, s); }
};
template <typename C>
struct ScaleBy {
  C alpha, beta;
  GPU_DEVICE C operator()(C x, C) const { return alpha * x + beta; }
};

enum class Arithmetic : int32_t { kAdd, kSubtract, kMultiply, kDivide };

template <typename C>
GPU_DEVICE C compute(Arithmetic kind, C a, C b) {
  switch (kind) {
    case Arithmetic::kAdd:
      return a + b;
    case Arithmetic::kSubtract:
      return a - b;
    case Arithmetic::kMultiply:
      return a * b;
    default:
      return a / b;
  }
}

template <typename C>
struct Combine {
  Arithmetic kind;
  GPU_DEVICE C operator()(C a, C b) const { return compute(kind, a, b); }
};

// The strides with which the operands are read for each element of the result. Neighbouring
// dimensions that all three tensors traverse in the same way are merged.
struct Broadcast {
  int32_t rank = 0;
  // The last dimension comes first; strides are in elements, and 0 for a dimension that repeats.
  int64_t dims[RT_MAX_RANK], a[RT_MAX_RANK], b[RT_MAX_RANK];
};

template <typename T>
GPU_KERNEL void broadcast_kernel(const T* a, const T* b, T* c, int64_t count, int64_t columns,
                                 Broadcast at, Arithmetic kind, PostOps post) {
  using C = Compute<T>;
  for (int64_t i = global_thread(); i < count; i += global_threads()) {
    int64_t rest = i, in_a = 0, in_b = 0;
    for (int32_t d = 0; d < at.rank; ++d) {
      const int64_t next = rest / at.dims[d], index = rest - next * at.dims[d];
      in_a += index * at.a[d];
      in_b += index * at.b[d];
      rest = next;
    }
    const C result = compute(kind, static_cast<C>(a[in_a]), static_cast<C>(b[in_b]));
    c[i] = static_cast<T>(post.apply<T>(result, i, i % columns));
  }
}

Broadcast broadcast_of(const Operation& op) {
  const rt_tensor_desc& c = op.output(0);
  Broadcast at;
  int64_t size[2] = {1, 1};
  for (int32_t d = 0; d < c.rank; ++d) {  // from the last dimension
    int64_t stride[2];
    for (uint32_t k = 0; k < 2; ++k) {
      const rt_tensor_desc& t = op.input(k);
      const int64_t dim = d < t.rank ? t.dims[t.rank - 1 - d] : 1;
      stride[k] = dim == 1 ? 0 : size[k];
      size[k] *= dim;
    }
    const int64_t dim = c.dims[c.rank - 1 - d];
    const int32_t last = at.rank - 1;
    const bool joins = at.rank > 0 && stride[0] == at.a[last] * at.dims[last] &&
                       stride[1] == at.b[last] * at.dims[last];
    if (dim == 1) continue;
    if (joins) {
      at.dims[last] *= dim;
    } else {
      at.dims[at.rank] = dim;
      at.a[at.rank] = stride[0];
      at.b[at.rank] = stride[1];
      ++at.rank;
    }
  }
  return at;
}

Kernel make_activation(const Properties&, const Operation& op) {
  const bool backward = op.is(RT_OP_ACTIVATION_BACKWARD);
  const int64_t count = rt::sdk::element_count(op.input(0));
  const auto function = static_cast<int32_t>(op.integer(RT_ATTR_FUNCTION));
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    Kernel kernel;
    kernel.run = [=](const Launch& l) {
      if (backward) {
        map<T>(l, l.inputs[0], l.inputs[1], count, ActivateBackward<C>{function});
      } else {
        map<T>(l, l.inputs[0], l.inputs[0], count, Activate<C>{function});
      }
    };
    return kernel;
  });
}

Kernel make_scale(const Properties&, const Operation& op) {
  const int64_t count = rt::sdk::element_count(op.input(0));
  const double alpha = op.number(RT_ATTR_ALPHA, 1.0), beta = op.number(RT_ATTR_BETA, 0.0);
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    Kernel kernel;
    kernel.run = [=](const Launch& l) {
      map<T>(l, l.inputs[0], l.inputs[0], count,
             ScaleBy<C>{static_cast<C>(alpha), static_cast<C>(beta)});
    };
    return kernel;
  });
}

Kernel make_arithmetic(const Properties&, const Operation& op) {
  const Arithmetic kind = op.is(RT_OP_ADD)        ? Arithmetic::kAdd
                          : op.is(RT_OP_SUBTRACT) ? Arithmetic::kSubtract
                          : op.is(RT_OP_MULTIPLY) ? Arithmetic::kMultiply
                                                  : Arithmetic::kDivide;
  const int64_t count = rt::sdk::element_count(op.output(0)), columns = last_dim(op.output(0));
  const Broadcast at = broadcast_of(op);
  const PostPlan post(op);
  const bool plain = op.post_op_count() == 0 && rt::sdk::element_count(op.input(0)) == count &&
                     rt::sdk::element_count(op.input(1)) == count;
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.run = [=](const Launch& l) {
      if (count == 0) return;
      if (plain) return map<T>(l, l.inputs[0], l.inputs[1], count, Combine<Compute<T>>{kind});
      GPU_LAUNCH((broadcast_kernel<T>), dim3(grid_for(count)), dim3(kBlock), l.stream,
                 l.input<T>(0), l.input<T>(1), l.output<T>(0), count, columns, at, kind,
                 post.bind(l));
      check_launch("broadcast");
    };
    return kernel;
  });
}

// The position of element e of a slice in the whole sample.
struct Part {
  int64_t columns, whole_columns, first;  // columns = 0: the sample is whole
  GPU_DEVICE int64_t number(int64_t e) const {
    return columns == 0 ? e : e / columns * whole_columns + first + e % columns;
  }
};

struct DropoutShape {
  int64_t count, sample;  // elements of the tensor and of one sample
  Part part;
  double probability;
  uint64_t seed;
  uint32_t layer;
};

template <typename T>
GPU_KERNEL void dropout_kernel(const T* x, const int64_t* step, const int64_t* base, T* y,
                               DropoutShape s) {
  using C = Compute<T>;
  const C scale = static_cast<C>(1.0 / (1.0 - s.probability));
  for (int64_t i = global_thread(); i < s.count; i += global_threads()) {
    const int64_t sample = i / s.sample;
    const auto e = static_cast<uint64_t>(s.part.number(i - sample * s.sample));
    const uint32_t counter[4] = {static_cast<uint32_t>(e / 4),
                                 static_cast<uint32_t>(*base + sample),
                                 static_cast<uint32_t>(*step), s.layer};
    const uint32_t word = philox_word(counter, s.seed, static_cast<int>(e % 4));
    const bool kept = static_cast<double>(word >> 8) / 16777216.0 >= s.probability;
    y[i] = kept ? static_cast<T>(static_cast<C>(x[i]) * scale) : static_cast<T>(0);
  }
}

Kernel make_dropout(const Properties&, const Operation& op) {
  DropoutShape s{};
  s.count = rt::sdk::element_count(op.input(0));
  s.sample = op.input(0).dims[0] == 0 ? 1 : s.count / op.input(0).dims[0];
  s.part = {op.integer(RT_ATTR_COLUMNS, 0), op.integer(RT_ATTR_WHOLE_COLUMNS, 0),
            op.integer(RT_ATTR_FIRST_COLUMN, 0)};
  s.probability = op.number(RT_ATTR_PROBABILITY);
  s.seed = static_cast<uint64_t>(op.integer(RT_ATTR_SEED));
  s.layer = static_cast<uint32_t>(op.integer(RT_ATTR_STREAM));
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.run = [=](const Launch& l) {
      if (s.count == 0) return;
      GPU_LAUNCH((dropout_kernel<T>), dim3(grid_for(s.count)), dim3(kBlock), l.stream,
                 l.input<T>(0), l.input<int64_t>(1), l.input<int64_t>(2), l.output<T>(0), s);
      check_launch("dropout");
    };
    return kernel;
  });
}

constexpr Entry kEntries[] = {
    {RT_OP_ACTIVATION, make_activation}, {RT_OP_ACTIVATION_BACKWARD, make_activation},
    {RT_OP_ADD, make_arithmetic, true},  {RT_OP_SUBTRACT, make_arithmetic},
    {RT_OP_MULTIPLY, make_arithmetic},   {RT_OP_DIVIDE, make_arithmetic},
    {RT_OP_SCALE, make_scale},           {RT_OP_DROPOUT, make_dropout},
};

}  // namespace

Family elementwise_family() { return {kEntries, std::size(kEntries)}; }

}  // namespace backends::gpu
