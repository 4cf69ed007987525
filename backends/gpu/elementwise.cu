// activation, activation_backward, add, subtract, multiply, divide, scale, dropout.
#include "backends/gpu/divisor.h"
#include "backends/gpu/fixed_posts.h"
#include "backends/gpu/philox.h"
#include "backends/gpu/work.h"

namespace backends::gpu {
namespace {

// ---- functions of one or two operands of one shape

// y = f(x)
template <typename T, typename F>
struct MapOne : Stateless {
  const T* x;
  T* y;
  F f;
  MapOne(const Launch& l, F function)
      : x(l.input<T>(0)), y(l.output<T>(0)), f(std::move(function)) {}

  template <int N>
  using Loaded = Pack<T, N>;
  template <int N>
  GPU_DEVICE void load(int64_t i, Loaded<N>& loaded) const {
    loaded = gpu::load<N>(x + i);
  }
  template <int N>
  GPU_DEVICE void store(int64_t i, const Loaded<N>& loaded, NoState) const {
    Compute<T> values[N];
    widen<T, N>(loaded, values);
    GPU_UNROLL
    for (int k = 0; k < N; ++k) values[k] = f(values[k]);
    gpu::store<N>(y + i, narrow<T, N>(values));
  }
};

// y = f(a, b)
template <typename T, typename F>
struct MapTwo : Stateless {
  const T *a, *b;
  T* y;
  F f;
  MapTwo(const Launch& l, F function)
      : a(l.input<T>(0)), b(l.input<T>(1)), y(l.output<T>(0)), f(std::move(function)) {}

  template <int N>
  struct Loaded {
    Pack<T, N> a, b;
  };
  template <int N>
  GPU_DEVICE void load(int64_t i, Loaded<N>& loaded) const {
    loaded.a = gpu::load<N>(a + i);
    loaded.b = gpu::load<N>(b + i);
  }
  template <int N>
  GPU_DEVICE void store(int64_t i, const Loaded<N>& loaded, NoState) const {
    Compute<T> left[N], right[N];
    widen<T, N>(loaded.a, left);
    widen<T, N>(loaded.b, right);
    GPU_UNROLL
    for (int k = 0; k < N; ++k) left[k] = f(left[k], right[k]);
    gpu::store<N>(y + i, narrow<T, N>(left));
  }
};

template <typename T, typename F>
void map_one(const Launch& l, int64_t count, F f, const char* name) {
  for_vectors<kVector<T>>(l, count, aligned({l.inputs[0], l.outputs[0]}), MapOne<T, F>(l, f), name);
}
template <typename T, typename F>
void map_two(const Launch& l, int64_t count, F f, const char* name) {
  for_vectors<kVector<T>>(l, count, aligned({l.inputs[0], l.inputs[1], l.outputs[0]}),
                          MapTwo<T, F>(l, f), name);
}

template <int32_t kFunction, typename T>
struct Value {
  GPU_DEVICE Compute<T> operator()(Compute<T> x) const { return value_of<kFunction, T>(x); }
};
template <int32_t kFunction, typename T>
struct Gradient {
  GPU_DEVICE Compute<T> operator()(Compute<T> dy, Compute<T> s) const {
    return gradient_of<kFunction, T>(dy, s);
  }
};
template <typename C>
struct ScaleBy {
  C alpha, beta;
  GPU_DEVICE C operator()(C x) const { return alpha * x + beta; }
};

Kernel make_activation(const Properties&, const Operation& op) {
  const int64_t count = rt::sdk::element_count(op.input(0));
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    const auto make = [&]<int32_t kFunction>() {
      Kernel kernel;
      kernel.run = [=](const Launch& l) {
        map_one<T>(l, count, Value<kFunction, T>{}, "activation");
      };
      return kernel;
    };
    return for_function<RT_ACTIVATION_RELU, RT_ACTIVATION_GELU, RT_ACTIVATION_GELU_TANH,
                        RT_ACTIVATION_TANH, RT_ACTIVATION_SIGMOID, RT_ACTIVATION_EXP,
                        RT_ACTIVATION_LOG, RT_ACTIVATION_SQRT, RT_ACTIVATION_RECIPROCAL,
                        RT_ACTIVATION_SIN, RT_ACTIVATION_COS, RT_ACTIVATION_FLOOR>(
        op.integer(RT_ATTR_FUNCTION), make);
  });
}

Kernel make_activation_backward(const Properties&, const Operation& op) {
  const int64_t count = rt::sdk::element_count(op.input(0));
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    const auto make = [&]<int32_t kFunction>() {
      Kernel kernel;
      kernel.run = [=](const Launch& l) {
        map_two<T>(l, count, Gradient<kFunction, T>{}, "activation_backward");
      };
      return kernel;
    };
    return for_function<RT_ACTIVATION_RELU, RT_ACTIVATION_GELU, RT_ACTIVATION_GELU_TANH,
                        RT_ACTIVATION_TANH, RT_ACTIVATION_SIGMOID>(op.integer(RT_ATTR_FUNCTION),
                                                                   make);
  });
}

Kernel make_scale(const Properties&, const Operation& op) {
  const int64_t count = rt::sdk::element_count(op.input(0));
  const double alpha = op.number(RT_ATTR_ALPHA, 1.0), beta = op.number(RT_ATTR_BETA, 0.0);
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    Kernel kernel;
    kernel.run = [=](const Launch& l) {
      map_one<T>(l, count, ScaleBy<C>{static_cast<C>(alpha), static_cast<C>(beta)}, "scale");
    };
    return kernel;
  });
}

// ---- arithmetic with broadcasting

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
template <Arithmetic kKind, typename C>
struct Combine {
  GPU_DEVICE C operator()(C a, C b) const { return compute(kKind, a, b); }
};

// The strides with which the operands are read for each element of the result. Neighbouring
// dimensions that all three tensors traverse in the same way are merged.
struct Broadcast {
  int32_t rank = 0;
  // The last dimension comes first; strides are in elements, and 0 for a dimension that repeats.
  int64_t dims[RT_MAX_RANK], a[RT_MAX_RANK], b[RT_MAX_RANK];
};

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

// Finds the operands of vectors of `unit` elements. The innermost dimension is a multiple of
// `unit`, so each vector lies in one row of it.
struct Finder {
  int32_t rank;
  bool a_repeats, b_repeats;  // one element is the operand of the whole vector
  Divisor dims[RT_MAX_RANK];  // the innermost one in vectors
  int64_t a[RT_MAX_RANK], b[RT_MAX_RANK];

  Finder(const Broadcast& at, int64_t unit) : rank(at.rank) {
    for (int32_t d = 0; d < rank; ++d) {
      const int64_t each = d == 0 ? unit : 1;
      dims[d] = Divisor(at.dims[d] / each);
      a[d] = at.a[d] * each;
      b[d] = at.b[d] * each;
    }
    a_repeats = rank == 0 || a[0] == 0;
    b_repeats = rank == 0 || b[0] == 0;
  }
  struct Operands {
    int64_t a = 0, b = 0;  // the numbers of their first elements
  };
  // Index is uint32_t if 31 bits count the vectors, else int64_t.
  template <typename Index>
  GPU_DEVICE Operands find(Index vector) const {
    Operands at;
    GPU_UNROLL
    for (int32_t d = 0; d < RT_MAX_RANK; ++d) {
      if (d >= rank) continue;
      Index rows;
      if constexpr (sizeof(Index) == 4) {
        rows = dims[d].small_quotient(vector);
      } else {
        rows = dims[d].quotient(vector);
      }
      const Index index = vector - rows * static_cast<Index>(dims[d].value());
      at.a += index * a[d];
      at.b += index * b[d];
      vector = rows;
    }
    return at;
  }
};

// c = a (kind) b, followed by post-operations, in vectors of kUnit elements, which 31 bits count.
template <typename T, int kUnit, Arithmetic kKind, typename Posts>
struct Arithmetics : WholeVectors {
  const T *a, *b;
  T* c;
  Finder finder;
  Divisor columns;
  Posts posts;
  Arithmetics(const Launch& l, const Broadcast& at, Divisor width, Posts list)
      : a(l.input<T>(0)),
        b(l.input<T>(1)),
        c(l.output<T>(0)),
        finder(at, kUnit),
        columns(width),
        posts(list) {}

  template <int N>
  struct Loaded {
    Pack<T, N> a, b;
    typename Posts::template Loaded<N> operands;
  };
  template <int N>
  GPU_DEVICE void load(int64_t i, Loaded<N>& loaded) const {
    const auto at = finder.find(static_cast<uint32_t>(i / kUnit));
    loaded.a = read<N>(a + at.a, finder.a_repeats);
    loaded.b = read<N>(b + at.b, finder.b_repeats);
    posts.template load<N>(i, loaded.operands);
  }
  template <int N>
  GPU_DEVICE void store(int64_t i, const Loaded<N>& loaded, NoState) const {
    Compute<T> left[N], right[N];
    widen<T, N>(loaded.a, left);
    widen<T, N>(loaded.b, right);
    GPU_UNROLL
    for (int k = 0; k < N; ++k) left[k] = compute(kKind, left[k], right[k]);
    const Place at{i, Posts::kUsesColumn ? columns.remainder(i) : 0, columns.value()};
    posts.template apply<N>(at, loaded.operands, left);
    gpu::store<N>(c + i, narrow<T, N>(left));
  }

 private:
  template <int N>
  GPU_DEVICE static Pack<T, N> read(const T* from, bool repeats) {
    if (!repeats) return gpu::load<N>(from);
    Pack<T, N> all;
    const T one = *from;
    GPU_UNROLL
    for (int k = 0; k < N; ++k) all.value[k] = one;
    return all;
  }
};

// The same with any post-operations and for any number of elements, one by one.
template <typename T>
GPU_KERNEL_OF(kBlock)
void any_arithmetic_kernel(const T* a, const T* b, T* c, int64_t count, Divisor columns,
                           Finder finder, Arithmetic kind, PostOps post) {
  using C = Compute<T>;
  for (int64_t i = global_thread(); i < count; i += global_threads()) {
    const auto at = finder.find(i);
    const C result = compute(kind, static_cast<C>(a[at.a]), static_cast<C>(b[at.b]));
    c[i] = static_cast<T>(post.apply<T>(result, i, columns.remainder(i)));
  }
}

// What follows the sums of the models in configs/: a residual block ends with relu, and gradients
// that meet there are added up in front of its gradient. Float64 is for tests.
template <typename T>
struct AfterAdd {
  using Relu = Fixed<RT_POST_ACTIVATION, RT_ACTIVATION_RELU>;
  using ReluBackward = Fixed<RT_POST_ACTIVATION_BACKWARD, RT_ACTIVATION_RELU>;
  using Residual = Fixed<RT_POST_RESIDUAL_ADD>;
  using Lists = PostLists<FixedPosts<T, Relu>, FixedPosts<T, ReluBackward>, FixedPosts<T, Residual>,
                          FixedPosts<T, Residual, ReluBackward>>;
};
template <>
struct AfterAdd<double> {
  using Lists = PostLists<>;
};

// What the launches of an arithmetic operation share.
struct ArithmeticPlan {
  int64_t count;
  Divisor columns;
  Broadcast at;
  PostPlan post;
  bool same;  // both operands have the shape of the result
  const char* name;
};

template <typename T>
void run_any(const Launch& l, const ArithmeticPlan& p, Arithmetic kind, const PostOps& posts) {
  GPU_LAUNCH((any_arithmetic_kernel<T>), dim3(grid_for(p.count)), dim3(kBlock), l.stream,
             l.input<T>(0), l.input<T>(1), l.output<T>(0), p.count, p.columns, Finder(p.at, 1),
             kind, posts);
  check_launch(p.name);
}

template <typename T, int kUnit, Arithmetic kKind, typename Posts>
void run_vectors(const Launch& l, const ArithmeticPlan& p, const Posts& posts) {
  for_vectors<kUnit>(l, p.count, true,
                     Arithmetics<T, kUnit, kKind, Posts>(l, p.at, p.columns, posts), p.name);
}

template <typename T, Arithmetic kKind>
void run_arithmetic(const Launch& l, const ArithmeticPlan& p) {
  constexpr int kUnit = kVector<T>;
  constexpr int64_t kMost = (int64_t{1} << 31) - 1;
  if (p.count == 0) return;
  if (p.same && p.post.empty()) {
    return map_two<T>(l, p.count, Combine<kKind, Compute<T>>{}, p.name);
  }
  const PostOps posts = p.post.bind(l);
  const bool fits = p.at.rank > 0 && p.at.dims[0] % kUnit == 0 && p.count / kUnit <= kMost &&
                    aligned({l.inputs[0], l.inputs[1], l.outputs[0]}) && aligned(posts);
  if (p.post.empty()) {
    if (fits) return run_vectors<T, kUnit, kKind>(l, p, NoPosts{});
    if (p.count <= kMost) return run_vectors<T, 1, kKind>(l, p, NoPosts{});
  } else if constexpr (kKind == Arithmetic::kAdd) {
    const auto launch = [&]<typename Posts>(const Posts& list) {
      if constexpr (std::is_same_v<Posts, AnyPosts<T>>) {
        run_any<T>(l, p, kKind, posts);
      } else {
        run_vectors<T, kUnit, kKind>(l, p, list);
      }
    };
    if (fits) return with_posts<T>(posts, typename AfterAdd<T>::Lists{}, launch);
  }
  run_any<T>(l, p, kKind, posts);
}

template <typename T, Arithmetic kKind>
Kernel arithmetic_kernel(const ArithmeticPlan& p) {
  Kernel kernel;
  kernel.run = [p](const Launch& l) { run_arithmetic<T, kKind>(l, p); };
  return kernel;
}

Kernel make_arithmetic(const Properties&, const Operation& op) {
  const int64_t count = rt::sdk::element_count(op.output(0));
  const bool same =
      rt::sdk::element_count(op.input(0)) == count && rt::sdk::element_count(op.input(1)) == count;
  const char* const name = op.is(RT_OP_ADD)        ? RT_OP_ADD
                           : op.is(RT_OP_SUBTRACT) ? RT_OP_SUBTRACT
                           : op.is(RT_OP_MULTIPLY) ? RT_OP_MULTIPLY
                                                   : RT_OP_DIVIDE;
  const ArithmeticPlan plan{
      count, Divisor(last_dim(op.output(0))), broadcast_of(op), PostPlan(op), same, name};
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    Kernel kernel = op.is(RT_OP_ADD)        ? arithmetic_kernel<T, Arithmetic::kAdd>(plan)
                    : op.is(RT_OP_SUBTRACT) ? arithmetic_kernel<T, Arithmetic::kSubtract>(plan)
                    : op.is(RT_OP_MULTIPLY) ? arithmetic_kernel<T, Arithmetic::kMultiply>(plan)
                                            : arithmetic_kernel<T, Arithmetic::kDivide>(plan);
    kernel.work = work_unless_empty(op, count);
    return kernel;
  });
}

// ---- dropout

// Four neighbouring elements of a whole sample share the four words of one Philox call.
struct DropoutShape {
  int64_t count;
  Divisor sample;   // elements of one sample
  Divisor columns;  // of the tensor-parallel slice; `whole` is 0 if the sample is whole
  int64_t whole, first;
  uint32_t threshold;  // an element is kept if its number of 24 bits is at least this
  uint64_t seed;
  uint32_t layer;
  double scale;

  // Do the elements in fours of this tensor have the numbers in fours of the whole sample?
  bool in_fours() const {
    return sample.value() % 4 == 0 &&
           (whole == 0 || (columns.value() % 4 == 0 && whole % 4 == 0 && first % 4 == 0));
  }
  // The position in the whole sample of element e of a sample of this slice.
  GPU_DEVICE int64_t number(int64_t e) const {
    if (whole == 0) return e;
    const int64_t row = columns.quotient(e);
    return row * whole + first + e - row * columns.value();
  }
};

template <typename T>
struct Dropout {
  using C = Compute<T>;
  const T* x;
  const int64_t *step, *base;
  T* y;
  DropoutShape s;

  struct State {
    uint32_t step, base;
  };
  GPU_DEVICE State begin() const {
    return {static_cast<uint32_t>(*step), static_cast<uint32_t>(*base)};
  }
  static constexpr bool kWhole = false;
  static constexpr int kAhead = 2;
  template <int N>
  using Loaded = Pack<T, N>;
  template <int N>
  GPU_DEVICE void load(int64_t i, Loaded<N>& loaded) const {
    loaded = gpu::load<N>(x + i);
  }
  template <int N>
  GPU_DEVICE void store(int64_t i, const Loaded<N>& loaded, const State& state) const {
    Loaded<N> result;
    if constexpr (N % 4 == 0) {
      GPU_UNROLL
      for (int k = 0; k < N; k += 4) {
        uint32_t words[4];
        words_of(i + k, state, words);
        GPU_UNROLL
        for (int j = 0; j < 4; ++j) result.value[k + j] = drop(loaded.value[k + j], words[j]);
      }
    } else {
      static_assert(N == 1);
      uint32_t words[4];
      const auto place = static_cast<uint32_t>(words_of(i, state, words) % 4);
      const uint32_t low = place == 0 ? words[0] : words[1],
                     high = place == 2 ? words[2] : words[3];
      result.value[0] = drop(loaded.value[0], place < 2 ? low : high);
    }
    gpu::store<N>(y + i, result);
  }

 private:
  // The random numbers of the four that element i is one of. Returns its position in its sample.
  GPU_DEVICE int64_t words_of(int64_t i, const State& state, uint32_t (&words)[4]) const {
    const int64_t sample = s.sample.quotient(i);
    const int64_t number = s.number(i - sample * s.sample.value());
    const uint32_t counter[4] = {static_cast<uint32_t>(number / 4),
                                 state.base + static_cast<uint32_t>(sample), state.step, s.layer};
    philox(counter, s.seed, words);
    return number;
  }
  GPU_DEVICE T drop(T element, uint32_t word) const {
    const C kept = static_cast<C>(element) * static_cast<C>(s.scale);
    return word >> 8 >= s.threshold ? static_cast<T>(kept) : static_cast<T>(0);
  }
};

Kernel make_dropout(const Properties&, const Operation& op) {
  DropoutShape s{};
  s.count = rt::sdk::element_count(op.input(0));
  s.sample = Divisor(op.input(0).dims[0] == 0 ? 1 : s.count / op.input(0).dims[0]);
  const int64_t columns = op.integer(RT_ATTR_COLUMNS, 0);
  s.columns = Divisor(columns);
  s.whole = columns == 0 ? 0 : op.integer(RT_ATTR_WHOLE_COLUMNS, 0);
  s.first = op.integer(RT_ATTR_FIRST_COLUMN, 0);
  const double probability = op.number(RT_ATTR_PROBABILITY);
  s.threshold = static_cast<uint32_t>(std::ceil(probability * 0x1p24));  // both steps are exact
  s.scale = 1.0 / (1.0 - probability);
  s.seed = static_cast<uint64_t>(op.integer(RT_ATTR_SEED));
  s.layer = static_cast<uint32_t>(op.integer(RT_ATTR_STREAM));
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.run = [=](const Launch& l) {
      for_vectors<std::max(kVector<T>, 4)>(
          l, s.count, s.in_fours() && aligned({l.inputs[0], l.outputs[0]}),
          Dropout<T>{l.input<T>(0), l.input<int64_t>(1), l.input<int64_t>(2), l.output<T>(0), s},
          "dropout");
    };
    kernel.work = work_unless_empty(op, s.count);
    return kernel;
  });
}

constexpr Entry kEntries[] = {
    {RT_OP_ACTIVATION, make_activation},
    {RT_OP_ACTIVATION_BACKWARD, make_activation_backward},
    {RT_OP_ADD, make_arithmetic, kFuses},
    {RT_OP_SUBTRACT, make_arithmetic},
    {RT_OP_MULTIPLY, make_arithmetic},
    {RT_OP_DIVIDE, make_arithmetic},
    {RT_OP_SCALE, make_scale},
    {RT_OP_DROPOUT, make_dropout},
};

}  // namespace

Family elementwise_family() { return {kEntries, std::size(kEntries)}; }

}  // namespace backends::gpu
