// reduce, square_sum, clip_scale, loss_scale.
#include "backends/gpu/column_functions.h"
#include "backends/gpu/vector_kernel.h"
#include "backends/gpu/work.h"

namespace backends::gpu {
namespace {

// The kept and the reduced dimensions of the input with their strides. Neighbouring dimensions of
// one kind are merged.
struct Axes {
  int32_t kept_rank = 0, reduced_rank = 0;  // the last dimension comes first
  int64_t kept[RT_MAX_RANK], kept_stride[RT_MAX_RANK];
  int64_t reduced[RT_MAX_RANK], reduced_stride[RT_MAX_RANK];
  int64_t results = 1, terms = 1;
};

Axes axes_of(const Operation& op) {
  const rt_tensor_desc& x = op.input(0);
  const int64_t mask = op.integer(RT_ATTR_AXES);
  Axes a;
  int64_t stride = 1;
  const auto add = [&](int32_t& rank, int64_t* dims, int64_t* strides, int64_t dim) {
    if (dim == 1) return;
    if (rank > 0 && strides[rank - 1] * dims[rank - 1] == stride) {
      dims[rank - 1] *= dim;
    } else {
      dims[rank] = dim;
      strides[rank++] = stride;
    }
  };
  for (int32_t d = x.rank - 1; d >= 0; --d) {
    if (mask >> d & 1) {
      add(a.reduced_rank, a.reduced, a.reduced_stride, x.dims[d]);
      a.terms *= x.dims[d];
    } else {
      add(a.kept_rank, a.kept, a.kept_stride, x.dims[d]);
      a.results *= x.dims[d];
    }
    stride *= x.dims[d];
  }
  return a;
}

GPU_DEVICE int64_t offset_of(int64_t index, int32_t rank, const int64_t* dims,
                             const int64_t* strides) {
  int64_t offset = 0;
  for (int32_t d = 0; d < rank; ++d) {
    const int64_t next = index / dims[d];
    offset += (index - next * dims[d]) * strides[d];
    index = next;
  }
  return offset;
}

// What is combined to one result, and how the parts of a result are combined.
struct Values {
  using Combine = Sum;
  using Parts = Values;
  template <typename C>
  GPU_DEVICE static C start() {
    return C(0);
  }
  template <typename C>
  GPU_DEVICE static C add(C total, C x) {
    return total + x;
  }
};
struct Squares : Values {
  template <typename C>
  GPU_DEVICE static C add(C total, C x) {
    return total + x * x;
  }
};
struct Largest {
  using Combine = Max;
  using Parts = Largest;
  template <typename C>
  GPU_DEVICE static C start() {
    return C(-INFINITY);
  }
  template <typename C>
  GPU_DEVICE static C add(C total, C x) {
    return Max::combine(total, x);
  }
};

constexpr int kLoads = 4;  // vectors that a thread of fold loads before it uses the first

// Combines from[0] to from[count - 1] by all threads of a block, in an order that depends on the
// arguments only; returned in every thread.
template <typename How, typename T>
GPU_DEVICE Compute<T> fold(const T* from, int64_t count, bool in_vectors, Compute<T>* scratch) {
  using C = Compute<T>;
  constexpr int N = kVector<T>;
  const int64_t vectors = in_vectors ? count / N : 0;
  C total = How::template start<C>();
  const auto add = [&](const Pack<T, N>& pack) {
    GPU_UNROLL
    for (int k = 0; k < N; ++k) total = How::add(total, static_cast<C>(pack.value[k]));
  };
  int64_t v = threadIdx.x;
  GPU_ROLL
  for (; v + (kLoads - 1) * kBlock < vectors; v += kLoads * kBlock) {
    Pack<T, N> loaded[kLoads];
    GPU_UNROLL
    for (int a = 0; a < kLoads; ++a) loaded[a] = load<N>(from + (v + a * kBlock) * N);
    GPU_UNROLL
    for (int a = 0; a < kLoads; ++a) add(loaded[a]);
  }
  GPU_ROLL
  for (; v < vectors; v += kBlock) add(load<N>(from + v * N));
  GPU_ROLL
  for (int64_t i = vectors * N + threadIdx.x; i < count; i += kBlock) {
    total = How::add(total, static_cast<C>(from[i]));
  }
  return block_reduce<typename How::Combine>(total, scratch);
}

// A block of threads computes one result, of elements that need not be neighbours.
template <typename T, typename How>
struct ReduceAny {
  using C = Compute<T>;
  const T* x;
  T* y;
  Axes a;
  C divisor;
  GPU_DEVICE void operator()(int64_t result, C* scratch) const {
    const T* from = x + offset_of(result, a.kept_rank, a.kept, a.kept_stride);
    C total = How::template start<C>();
    GPU_ROLL
    for (int64_t i = threadIdx.x; i < a.terms; i += kBlock) {
      const int64_t offset = offset_of(i, a.reduced_rank, a.reduced, a.reduced_stride);
      total = How::add(total, static_cast<C>(from[offset]));
    }
    total = block_reduce<typename How::Combine>(total, scratch);
    if (threadIdx.x == 0) y[result] = static_cast<T>(total / divisor);
  }
};

// A block of threads computes one result, of `terms` neighbouring elements; the last result may
// have less, so that all results are those of `count` elements.
template <typename T, typename To, typename How>
struct ReduceRows {
  using C = Compute<T>;
  const T* x;
  To* y;
  int64_t count, terms;
  bool in_vectors;
  C divisor;
  GPU_DEVICE void operator()(int64_t result, C* scratch) const {
    const int64_t first = result * terms, rest = count - first;
    const C total = fold<How>(x + first, rest < terms ? rest : terms, in_vectors, scratch);
    if (threadIdx.x == 0) y[result] = static_cast<To>(total / divisor);
  }
};

// How many parts the elements of one result are divided into, one for each block of threads, and
// how many elements a part has. A second kernel combines the parts.
struct Parts {
  int64_t count, parts, share;
  template <typename T>
  static Parts of(const Properties& properties, int64_t count) {
    constexpr int64_t kTile = int64_t{kBlock} * kVector<T> * kLoads;
    const int64_t blocks = 4 * int64_t{properties.multiprocessors};
    const int64_t share = std::max<int64_t>(divide_up(divide_up(count, blocks), kTile), 1) * kTile;
    return {count, std::max<int64_t>(divide_up(count, share), 1), share};
  }
  template <typename C>
  uint64_t workspace() const {
    return parts == 1 ? 0 : static_cast<uint64_t>(parts) * sizeof(C);
  }
  // Appends the kernels of reduce_all() to the list of a plan.
  template <typename T, typename To>
  std::vector<Work> work(const char* name) const {
    const double read = static_cast<double>(count) * sizeof(T);
    if (parts == 1) return {{name, read + sizeof(To)}};
    const auto between = static_cast<double>(workspace<Compute<T>>());
    return {{name, read + between}, {name, between + sizeof(To)}};
  }
};

// Combines all elements to one number.
template <typename T, typename To, typename How>
void reduce_all(const Launch& l, const Parts& p, Compute<T> divisor, const char* name) {
  using C = Compute<T>;
  const T* const x = l.input<T>(0);
  const bool in_vectors = aligned({x});
  if (p.parts == 1) {
    const ReduceRows<T, To, How> all{x, l.output<To>(0), p.count, p.count, in_vectors, divisor};
    return for_rows<C>(l, 1, all, name);
  }
  auto* const partial = static_cast<C*>(l.workspace);
  for_rows<C>(l, p.parts, ReduceRows<T, C, How>{x, partial, p.count, p.share, in_vectors, C(1)},
              name);
  for_rows<C>(l, 1,
              ReduceRows<C, To, typename How::Parts>{partial, l.output<To>(0), p.parts, p.parts,
                                                     aligned({partial}), divisor},
              name);
}

// Reduces the leading axes, as sums over columns.
template <typename T>
struct ReduceColumns : Adds<T, 1> {
  using C = Compute<T>;
  const T* x;
  int64_t columns;
  bool max;
  ReduceColumns(const T* data, int64_t width, bool largest)
      : x(data), columns(width), max(largest) {}
  template <int V>
  using State = typename Adds<T, 1>::template State<V>;

  GPU_DEVICE void none(C (&sums)[1]) const { sums[0] = max ? C(-INFINITY) : C(0); }
  GPU_DEVICE void combine(C (&into)[1], const C (&other)[1]) const {
    into[0] = max ? Max::combine(into[0], other[0]) : into[0] + other[0];
  }
  template <int V>
  GPU_DEVICE State<V> start(int64_t) const {
    State<V> state;
    for (int v = 0; v < V; ++v) none(state.sums[v]);
    return state;
  }
  template <int V, int R>
  GPU_DEVICE void add(int64_t row, int64_t step, int64_t column, State<V>& state) const {
    Pack<T, V> loaded[R];
    load_rows<V, R>(x, columns, row, step, column, loaded);
    for (int i = 0; i < R; ++i) {
      for (int v = 0; v < V; ++v) {
        const C one[1] = {static_cast<C>(loaded[i].value[v])};
        combine(state.sums[v], one);
      }
    }
  }
};
template <typename T>
struct StoreColumn {
  T* y;
  Compute<T> divisor;
  GPU_DEVICE void operator()(int64_t column, Compute<T> (&totals)[1]) const {
    y[column] = static_cast<T>(totals[0] / divisor);
  }
};

template <typename T>
Kernel reduce_columns(const Operation& op, const Axes& a, bool max, Compute<T> divisor) {
  using C = Compute<T>;
  Kernel kernel;
  kernel.workspace_bytes = column_workspace<C>(op, a.terms, a.results, 1);
  kernel.run = [=](const Launch& l) {
    column_sums<C, 1>(l, a.terms, a.results, static_cast<C*>(l.workspace),
                      ReduceColumns<T>(l.input<T>(0), a.results, max),
                      StoreColumn<T>{l.output<T>(0), divisor}, "reduce");
  };
  column_work(kernel.work, static_cast<double>(a.terms * a.results) * sizeof(T),
              static_cast<double>(a.results) * sizeof(T), kernel.workspace_bytes);
  return kernel;
}

template <typename T, typename How>
Kernel reduce_rows(const Properties& properties, const Operation& op, const Axes& a,
                   Compute<T> divisor) {
  using C = Compute<T>;
  Kernel kernel;
  kernel.work = work_unless_empty(op, a.results);
  const bool rows = a.reduced_rank <= 1 && (a.reduced_rank == 0 || a.reduced_stride[0] == 1) &&
                    a.kept_rank <= 1 && (a.kept_rank == 0 || a.kept_stride[0] == a.terms);
  if (!rows) {
    kernel.run = [=](const Launch& l) {
      for_rows<C>(l, a.results, ReduceAny<T, How>{l.input<T>(0), l.output<T>(0), a, divisor},
                  "reduce");
    };
  } else if (a.results == 1) {
    const Parts parts = Parts::of<T>(properties, a.terms);
    kernel.workspace_bytes = parts.workspace<C>();
    kernel.work = parts.work<T, T>("reduce");
    kernel.run = [=](const Launch& l) { reduce_all<T, T, How>(l, parts, divisor, "reduce"); };
  } else {
    kernel.run = [=](const Launch& l) {
      const bool in_vectors = a.terms % kVector<T> == 0 && aligned({l.inputs[0]});
      for_rows<C>(l, a.results,
                  ReduceRows<T, T, How>{l.input<T>(0), l.output<T>(0), a.terms * a.results, a.terms,
                                        in_vectors, divisor},
                  "reduce");
    };
  }
  return kernel;
}

Kernel make_reduce(const Properties& properties, const Operation& op) {
  const Axes a = axes_of(op);
  const int64_t function = op.integer(RT_ATTR_FUNCTION);
  const bool max = function == RT_REDUCE_MAX;
  const bool columns = a.terms > 1 && a.results > 1 && a.kept_rank == 1 && a.kept_stride[0] == 1 &&
                       a.reduced_rank == 1;
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    const C divisor = function == RT_REDUCE_MEAN ? static_cast<C>(a.terms) : C(1);
    if (columns) return reduce_columns<T>(op, a, max, divisor);
    return max ? reduce_rows<T, Largest>(properties, op, a, divisor)
               : reduce_rows<T, Values>(properties, op, a, divisor);
  });
}

Kernel make_square_sum(const Properties& properties, const Operation& op) {
  const int64_t count = rt::sdk::element_count(op.input(0));
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    const Parts parts = Parts::of<T>(properties, count);
    Kernel kernel;
    kernel.workspace_bytes = parts.workspace<C>();
    kernel.work = parts.work<T, C>("square_sum");
    kernel.run = [=](const Launch& l) { reduce_all<T, C, Squares>(l, parts, C(1), "square_sum"); };
    return kernel;
  });
}

template <typename T>
struct ClipScale {
  using C = Compute<T>;
  const T* s;
  T* c;
  C max_norm;
  GPU_DEVICE void operator()(int64_t) const {
    const C scale = max_norm / (sqrt_of(static_cast<C>(*s)) + C(1e-6));
    *c = static_cast<T>(scale < C(1) ? scale : (scale != scale ? scale : C(1)));
  }
};

Kernel make_clip_scale(const Properties&, const Operation& op) {
  const double max_norm = op.number(RT_ATTR_MAX_NORM);
  return for_wide(op.input(0).dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.run = [=](const Launch& l) {
      for_each(l, 1, ClipScale<T>{l.input<T>(0), l.output<T>(0), static_cast<Compute<T>>(max_norm)},
               "clip_scale");
    };
    return kernel;
  });
}

template <typename T>
struct LossScale {
  using C = Compute<T>;
  const T *s, *state;
  T *c, *next;
  C max_norm;
  GPU_DEVICE void operator()(int64_t) const {
    const C sum = static_cast<C>(*s);
    C scale = static_cast<C>(state[0]), good = static_cast<C>(state[1]) + C(1),
      skipped = static_cast<C>(state[2]), factor = C(0);
    if (sum - sum == C(0)) {  // true if the sum is finite
      factor = C(1) / scale;
      const C clip = max_norm / (sqrt_of(sum) / scale + C(1e-6));
      if (max_norm > C(0) && clip < C(1)) factor *= clip;
      if (good == C(RT_LOSS_SCALE_INTERVAL)) {
        if (scale < C(RT_LOSS_SCALE_LARGEST)) scale *= C(2);
        good = C(0);
      }
    } else {
      if (scale > C(RT_LOSS_SCALE_SMALLEST)) scale /= C(2);
      good = C(0);
      skipped += C(1);
    }
    *c = static_cast<T>(factor);
    next[0] = static_cast<T>(scale);
    next[1] = static_cast<T>(good);
    next[2] = static_cast<T>(skipped);
  }
};

Kernel make_loss_scale(const Properties&, const Operation& op) {
  const double max_norm = op.number(RT_ATTR_MAX_NORM, 0.0);
  return for_wide(op.input(0).dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.run = [=](const Launch& l) {
      for_each(l, 1,
               LossScale<T>{l.input<T>(0), l.input<T>(1), l.output<T>(0), l.output<T>(1),
                            static_cast<Compute<T>>(max_norm)},
               "loss_scale");
    };
    return kernel;
  });
}

constexpr Entry kEntries[] = {{RT_OP_REDUCE, make_reduce},
                              {RT_OP_SQUARE_SUM, make_square_sum},
                              {RT_OP_CLIP_SCALE, make_clip_scale},
                              {RT_OP_LOSS_SCALE, make_loss_scale}};

}  // namespace

Family reduction_family() { return {kEntries, std::size(kEntries)}; }

}  // namespace backends::gpu
