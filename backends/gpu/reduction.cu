// reduce, square_sum, clip_scale, loss_scale.
#include "backends/gpu/columns.h"

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

// A block of threads computes one result.
template <typename T>
struct ReduceAny {
  using C = Compute<T>;
  const T* x;
  T* y;
  Axes a;
  bool max;
  C divisor;
  GPU_DEVICE void operator()(int64_t result, C* scratch) const {
    const T* from = x + offset_of(result, a.kept_rank, a.kept, a.kept_stride);
    C total = max ? C(-INFINITY) : C(0);
    for (int64_t i = threadIdx.x; i < a.terms; i += kBlock) {
      const C value =
          static_cast<C>(from[offset_of(i, a.reduced_rank, a.reduced, a.reduced_stride)]);
      total = max ? Max::combine(total, value) : total + value;
    }
    total = max ? block_reduce<Max>(total, scratch) : block_reduce<Sum>(total, scratch);
    if (threadIdx.x == 0) y[result] = static_cast<T>(total / divisor);
  }
};

// Reduces the leading axes, as sums over columns.
template <typename T>
struct ReduceColumns {
  using C = Compute<T>;
  const T* x;
  int64_t columns;
  bool max;
  GPU_DEVICE C start() const { return max ? C(-INFINITY) : C(0); }
  GPU_DEVICE C combine(C a, C b) const { return max ? Max::combine(a, b) : a + b; }
  GPU_DEVICE void operator()(int64_t row, int64_t column, C (&sums)[1]) const {
    sums[0] = combine(sums[0], static_cast<C>(x[row * columns + column]));
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

Kernel make_reduce(const Properties&, const Operation& op) {
  const Axes a = axes_of(op);
  const int64_t function = op.integer(RT_ATTR_FUNCTION);
  const bool max = function == RT_REDUCE_MAX;
  const bool columns = a.terms > 1 && a.results > 1 && a.kept_rank == 1 && a.kept_stride[0] == 1 &&
                       a.reduced_rank == 1;
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    const C divisor = function == RT_REDUCE_MEAN ? static_cast<C>(a.terms) : C(1);
    Kernel kernel;
    if (columns) {
      kernel.workspace_bytes = column_workspace<C>(a.terms, a.results, 1);
      kernel.run = [=](const Launch& l) {
        column_sums<C, 1>(l, a.terms, a.results, static_cast<C*>(l.workspace),
                          ReduceColumns<T>{l.input<T>(0), a.results, max},
                          StoreColumn<T>{l.output<T>(0), divisor}, "reduce");
      };
    } else {
      kernel.run = [=](const Launch& l) {
        for_rows<C>(l, a.results, ReduceAny<T>{l.input<T>(0), l.output<T>(0), a, max, divisor},
                    "reduce");
      };
    }
    return kernel;
  });
}

// Each block writes its sum to `partial`.
template <typename T>
struct SquareSum {
  using C = Compute<T>;
  const T* x;
  C* partial;
  int64_t count, share;
  GPU_DEVICE void operator()(int64_t part, C* scratch) const {
    const T* from = x + part * share;
    const int64_t rest = count - part * share;
    const C sum = block_sum(rest < share ? rest : share, scratch, [&](int64_t i) {
      const C value = static_cast<C>(from[i]);
      return value * value;
    });
    if (threadIdx.x == 0) partial[part] = sum;
  }
};

Kernel make_square_sum(const Properties& properties, const Operation& op) {
  const int64_t count = rt::sdk::element_count(op.input(0));
  const int64_t share =
      std::max<int64_t>(divide_up(count, 4 * properties.multiprocessors), 4 * kBlock);
  const int64_t parts = divide_up(count, share);
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    Kernel kernel;
    kernel.workspace_bytes = static_cast<uint64_t>(parts) * sizeof(C);
    kernel.run = [=](const Launch& l) {
      auto* partial = static_cast<C*>(l.workspace);
      for_rows<C>(l, parts, SquareSum<T>{l.input<T>(0), partial, count, share}, "square_sum");
      for_rows<C>(l, 1, SumOf<C, 1>{partial, parts, {l.output<C>(0)}}, "square_sum");
    };
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
