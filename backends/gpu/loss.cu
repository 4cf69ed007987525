// softmax, log_softmax, cross_entropy (whole, and with classes split over tensor-parallel ranks),
// mean_squared_error, correct_count, and their gradients. A block of threads computes one row,
// which it holds in registers if it is not too long.
#include "backends/gpu/limits.h"
#include "backends/gpu/row_launch.h"
#include "backends/gpu/row_layout.h"
#include "backends/gpu/row_scan.h"
#include "backends/gpu/rows.h"

namespace backends::gpu {
namespace {

template <typename T, int kPacks, bool kWhole>
struct Softmax {
  using C = Compute<T>;
  const T* x;
  T* y;
  int64_t width;
  bool logarithm;
  GPU_DEVICE void operator()(int64_t row, const Scratch<C>& scratch) const {
    const T* from = x + row * width;
    T* to = y + row * width;
    const RowParts<T> parts(from, width);
    Chunk<T, kPacks> chunk;
    const RowSum<C> s = scan_row<kWhole>(from, parts, chunk, scratch);
    chunk.forget(scratch.zero);
    if (logarithm) {
      const C log_sum = log_of(s.sum);
      map_row<kWhole>(from, to, parts, chunk, [&](C v) { return v - s.largest - log_sum; });
    } else {
      const C inverse = C(1) / s.sum;
      map_row<kWhole>(from, to, parts, chunk,
                      [&](C v) { return exp_for<T>(v - s.largest) * inverse; });
    }
  }
};

template <typename T, int kPacks, bool kWhole>
struct SoftmaxBackward {
  using C = Compute<T>;
  const T *dy, *y;
  T* dx;
  int64_t width;
  bool logarithm;
  GPU_DEVICE C term(C g, C p) const { return logarithm ? g : g * p; }
  GPU_DEVICE C result(C g, C p, C sum) const {
    return logarithm ? g - exp_of(p) * sum : p * (g - sum);
  }
  GPU_DEVICE void operator()(int64_t row, const Scratch<C>& scratch) const {
    const T *d = dy + row * width, *p = y + row * width;
    const RowParts<T> parts(d, width);
    const int edge = parts.edge();
    Chunk<T, kPacks> ds, ps;
    C sum = edge < 0 ? C(0) : term(static_cast<C>(d[edge]), static_cast<C>(p[edge]));
    const auto load = [&](int begin) {
      ds.load(d, parts, begin, C(0));
      ps.load(p, parts, begin, C(0));
    };
    for_chunks<kPacks, kWhole>(parts.packs, [&](int begin) {
      load(begin);
      GPU_UNROLL
      for (int i = 0; i < kPacks * kPerPack<T>; ++i) {
        sum += term(element<T>(ds.packs[i / kPerPack<T>], i % kPerPack<T>),
                    element<T>(ps.packs[i / kPerPack<T>], i % kPerPack<T>));
      }
    });
    sum = block_reduce<Sum>(sum, scratch.values);
    ds.forget(scratch.zero);
    ps.forget(scratch.zero);
    T* to = dx + row * width;
    for_chunks<kPacks, kWhole>(parts.packs, [&](int begin) {
      if constexpr (!kWhole) load(begin);
      ds.store(to, parts, begin,
               [&](C g, int k, int i) { return result(g, element<T>(ps.packs[k], i), sum); });
    });
    if (edge < 0) return;
    to[edge] = static_cast<T>(result(static_cast<C>(d[edge]), static_cast<C>(p[edge]), sum));
  }
};

// Loss, gradient and whether the prediction is right, each if there is an address for it. Rows are
// `stride` elements apart. dlogits may be logits.
template <typename T, int kPacks, bool kWhole>
struct CrossEntropy {
  using C = Compute<T>;
  const T* logits;
  const int32_t* labels;
  const C *weight, *dloss;  // dloss is read for the gradient only
  C *losses, *counts;       // results of rows are `results` numbers apart
  T* dlogits;
  int64_t width, stride;
  int results;

  GPU_DEVICE void operator()(int64_t row, const Scratch<C>& scratch) const {
    const T* from = logits + row * stride;
    const C w = weight[row];
    if (w == C(0)) {  // a padding row may hold anything, even NaN
      finish(row, C(0), C(0));
      if (dlogits != nullptr) write_zeros(row, 0);
      return;
    }
    const int label = labels[row];
    const C of_label = static_cast<C>(from[label]);
    const RowParts<T> parts(from, width);
    Chunk<T, kPacks> chunk;
    const RowSum<C> s = scan_row<kWhole>(from, parts, chunk, scratch);
    int first = -1;
    if (counts != nullptr) first = first_largest<kWhole>(from, parts, chunk, s.largest, scratch);
    finish(row, w * (log_of(s.sum) - (of_label - s.largest)),
           first == label && w > C(0) ? C(1) : C(0));
    if (dlogits == nullptr) return;
    const C scale = w * *dloss, share = scale / s.sum;
    const auto term = [&](C x) { return share * exp_for<T>(x - s.largest); };
    T* to = dlogits + row * stride;
    chunk.forget(scratch.zero);
    map_row<kWhole>(from, to, parts, chunk, term);
    __syncthreads();  // the label's element is written a second time
    if (threadIdx.x == 0) to[label] = static_cast<T>(term(of_label) - scale);
    write_zeros(row, width);
  }
  GPU_DEVICE void finish(int64_t row, C loss, C count) const {
    if (threadIdx.x != 0) return;
    if (losses != nullptr) losses[row * results] = loss;
    if (counts != nullptr) counts[row * results] = count;
  }
  // Writes zeros from element `begin` of the row to the end of its padding.
  GPU_DEVICE void write_zeros(int64_t row, int64_t begin) const {
    for (int64_t j = begin + threadIdx.x; j < stride; j += kBlock) {
      dlogits[row * stride + j] = static_cast<T>(0);
    }
  }
};

// Each row of part [rows,4] holds, for the classes of this rank: the largest logit, the sum of
// exp(logit - largest), the label's logit (0 if another rank has it), and whether the first largest
// logit is the label's.
template <typename T, int kPacks, bool kWhole>
struct Statistics {
  using C = Compute<T>;
  const T* logits;
  const int32_t* labels;
  C* part;
  int64_t width, first_class;
  GPU_DEVICE void operator()(int64_t row, const Scratch<C>& scratch) const {
    const T* from = logits + row * width;
    const RowParts<T> parts(from, width);
    Chunk<T, kPacks> chunk;
    const RowSum<C> s = scan_row<kWhole>(from, parts, chunk, scratch);
    const int first = first_largest<kWhole>(from, parts, chunk, s.largest, scratch);
    if (threadIdx.x != 0) return;
    const int64_t label = labels[row] - first_class;
    const bool mine = label >= 0 && label < width;
    C* to = part + row * 4;
    to[0] = s.largest;
    to[1] = s.sum;
    to[2] = mine ? static_cast<C>(from[label]) : C(0);
    to[3] = mine && first == label ? C(1) : C(0);
  }
};

// Merges the `groups` parts of each row, in one thread per row. A row of `merged` [rows,2] is the
// largest logit and log(sum of exp(logit - largest)); a row of `row_results` [rows,2] is the
// weighted loss and 1 if the prediction is correct, else 0.
template <typename T>
struct Merge {
  using C = Compute<T>;
  const T *parts, *weight;
  T* merged;
  C* row_results;
  int64_t groups, rows;
  GPU_DEVICE void operator()(int64_t row) const {
    const C w = weight[row];
    C largest = -INFINITY, sum = C(0), label = C(0), correct = C(0);
    for (int64_t g = 0; g < groups; ++g) {
      const T* p = parts + (g * rows + row) * 4;
      const C other = static_cast<C>(p[0]);
      if (g == 0 || other > largest || (other != other && largest == largest)) {
        largest = other;
        correct = static_cast<C>(p[3]);
      }
      label += static_cast<C>(p[2]);
    }
    for (int64_t g = 0; g < groups; ++g) {
      const T* p = parts + (g * rows + row) * 4;
      sum += static_cast<C>(p[1]) * exp_of(static_cast<C>(p[0]) - largest);
    }
    const bool counts = w != C(0);
    const C log_sum = log_of(sum);
    merged[row * 2] = counts ? static_cast<T>(largest) : static_cast<T>(0);
    merged[row * 2 + 1] = counts ? static_cast<T>(log_sum) : static_cast<T>(0);
    row_results[row * 2] = counts ? w * (log_sum - (label - largest)) : C(0);
    row_results[row * 2 + 1] = w > C(0) && correct != C(0) ? C(1) : C(0);
  }
};

template <typename T, int kPacks, bool kWhole>
struct BackwardApply {
  using C = Compute<T>;
  const T* logits;
  const int32_t* labels;
  const C *weight, *dloss, *merged;
  T* dlogits;
  int64_t width, first_class;
  GPU_DEVICE void operator()(int64_t row, const Scratch<C>&) const {
    const T* from = logits + row * width;
    T* to = dlogits + row * width;
    const C w = weight[row], scale = w * *dloss;
    const C largest = merged[row * 2], log_sum = merged[row * 2 + 1];
    const int64_t label = labels[row] - first_class;
    const bool mine = label >= 0 && label < width;
    const C of_label = mine ? static_cast<C>(from[label]) : C(0);
    const auto probability = [&](C x) { return exp_of(x - largest - log_sum); };
    const RowParts<T> parts(from, width);
    Chunk<T, kPacks> chunk;
    map_row<kWhole>(from, to, parts, chunk,
                    [&](C x) { return w == C(0) ? C(0) : scale * probability(x); });
    __syncthreads();  // the label's element is written a second time
    if (!mine || threadIdx.x != 0) return;
    to[label] = static_cast<T>(w == C(0) ? C(0) : scale * (probability(of_label) - C(1)));
  }
};

template <typename T>
struct SquaredError {
  using C = Compute<T>;
  const T *y, *target;
  const C* weight;
  C* row_loss;
  int64_t width;
  GPU_DEVICE void operator()(int64_t row, C* scratch) const {
    const C w = weight[row];
    const C sum = block_sum(width, scratch, [&](int64_t j) {
      const C d = static_cast<C>(y[row * width + j]) - static_cast<C>(target[row * width + j]);
      return d * d;
    });
    if (threadIdx.x == 0) row_loss[row] = w == C(0) ? C(0) : w * sum / static_cast<C>(width);
  }
};

template <typename T>
struct SquaredErrorBackward {
  using C = Compute<T>;
  const T *y, *target;
  const C *weight, *dloss;
  T* dy;
  int64_t width;
  GPU_DEVICE void operator()(int64_t i) const {
    const C w = weight[i / width];
    const C d = static_cast<C>(y[i]) - static_cast<C>(target[i]);
    dy[i] = w == C(0) ? static_cast<T>(0)
                      : static_cast<T>(w * *dloss * C(2) / static_cast<C>(width) * d);
  }
};

struct Shape {
  int64_t rows, width;
  int64_t stride = 0;  // elements from the beginning of one row to that of the next
};
// The rows of logits that are canonical or in a row layout.
Shape rows_of(const Operation& op) {
  const rt_tensor_desc& x = op.input(0);
  const int64_t width = last_dim(x);
  const Shape s{width == 0 ? 0 : row_count(x), width, row_stride(x)};
  // Kernels count the elements of a row in 32 bits, with those that a chunk of packs has behind the
  // row (held_row.h).
  expect_at_most(op, s.stride, INT_MAX - (1 << 20), "elements of a row");
  return s;
}
// The shape of y [n,...] as n rows, each with all elements of one sample.
Shape samples_of(const rt_tensor_desc& y) {
  const int64_t count = rt::sdk::element_count(y);
  return {y.dims[0], y.dims[0] == 0 ? 0 : count / y.dims[0]};
}

double bytes_of(const rt_tensor_desc& x) { return static_cast<double>(stored_bytes(x)); }
double bytes_of(const Operation& op, uint32_t first_input, uint32_t inputs) {
  double bytes = 0;
  for (uint32_t i = first_input; i < inputs; ++i) bytes += bytes_of(op.input(i));
  return bytes;
}

// Adds a kernel to the list of those that a plan queues, unless it has no row.
void add_work(Kernel& kernel, const char* name, int64_t rows, double bytes) {
  if (rows > 0) kernel.work.push_back({name, bytes});
}

Kernel make_softmax(const Properties&, const Operation& op) {
  const Shape s = rows_of(op);
  const bool logarithm = op.is(RT_OP_LOG_SOFTMAX);
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    return for_width<T, 1, 4, kPacksOfTwoBlocks>(s.width, [&]<int packs, bool whole>() {
      using C = Compute<T>;
      Kernel kernel;
      kernel.run = [=](const Launch& l) {
        const Softmax<T, packs, whole> f{l.input<T>(0), l.output<T>(0), s.width, logarithm};
        for_held_rows<C, packs>(l, s.rows, f, "softmax");
      };
      const double x = bytes_of(op.input(0));
      add_work(kernel, op.desc().name, s.rows, whole ? 2 * x : 3 * x);
      return kernel;
    });
  });
}

Kernel make_softmax_backward(const Properties&, const Operation& op) {
  const Shape s = rows_of(op);
  const bool logarithm = op.is(RT_OP_LOG_SOFTMAX_BACKWARD);
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    return for_width<T, 1, 4, kPacksOfTwoBlocks / 2>(s.width, [&]<int packs, bool whole>() {
      using C = Compute<T>;
      Kernel kernel;
      kernel.run = [=](const Launch& l) {
        const SoftmaxBackward<T, packs, whole> f{l.input<T>(0), l.input<T>(1), l.output<T>(0),
                                                 s.width, logarithm};
        for_held_rows<C, 2 * packs>(l, s.rows, f, "softmax_backward");
      };
      const double x = bytes_of(op.input(0));
      add_work(kernel, op.desc().name, s.rows, whole ? 3 * x : 5 * x);
      return kernel;
    });
  });
}

// The results that a kernel computes for each row of logits.
struct Wanted {
  bool loss, gradient, count;
};

// The outputs are those that are wanted, in this order: loss, dlogits, count. The numbers of the
// rows are summed by a second kernel.
Kernel make_classification(const Operation& op, const Wanted& wanted) {
  const Shape s = rows_of(op);
  const int results = (wanted.loss ? 1 : 0) + (wanted.count ? 1 : 0);
  const std::string name(op.name());
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    return for_width<T, 1, 4, kPacksOfTwoBlocks, 32>(s.width, [&]<int packs, bool whole>() {
      using C = Compute<T>;
      Kernel kernel;
      kernel.workspace_bytes = static_cast<uint64_t>(s.rows * results) * sizeof(C);
      kernel.run = [=](const Launch& l) {
        auto* sums = static_cast<C*>(l.workspace);
        const uint32_t gradient = wanted.loss ? 1 : 0, count = results == 2 ? 2 : 0;
        const CrossEntropy<T, packs, whole> f{l.input<T>(0),
                                              l.input<int32_t>(1),
                                              l.input<C>(2),
                                              wanted.gradient ? l.input<C>(3) : nullptr,
                                              wanted.loss ? sums : nullptr,
                                              wanted.count ? sums + (results - 1) : nullptr,
                                              wanted.gradient ? l.output<T>(gradient) : nullptr,
                                              s.width,
                                              s.stride,
                                              results};
        for_held_rows<C, packs>(l, s.rows, f, name.c_str());
        if (results == 2) {
          for_rows<C>(l, 1, SumOf<C, 2>{sums, s.rows, {l.output<C>(0), l.output<C>(count)}},
                      "sum of losses");
        } else if (results == 1) {
          for_rows<C>(l, 1, SumOf<C, 1>{sums, s.rows, {l.output<C>(0)}}, "sum of losses");
        }
      };
      const double logits = bytes_of(op.input(0)), numbers = 1.0 * kernel.workspace_bytes;
      const double again = wanted.gradient ? (whole ? logits : 2 * logits) : 0;
      add_work(kernel, op.desc().name, s.rows,
               logits + again + bytes_of(op, 1, op.input_count()) + numbers);
      if (results > 0) add_work(kernel, "sum of losses", 1, numbers + results * sizeof(C));
      return kernel;
    });
  });
}

Kernel make_cross_entropy(const Properties&, const Operation& op) {
  return make_classification(op, {true, false, false});
}
Kernel make_correct_count(const Properties&, const Operation& op) {
  return make_classification(op, {false, false, true});
}
Kernel make_cross_entropy_backward(const Properties&, const Operation& op) {
  return make_classification(op, {false, true, false});
}
Kernel make_cross_entropy_with_gradient(const Properties&, const Operation& op) {
  return make_classification(op, {true, true, op.output_count() == 3});
}

Kernel make_mean_squared_error(const Properties&, const Operation& op) {
  const Shape s = samples_of(op.input(0));
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    Kernel kernel;
    kernel.workspace_bytes = static_cast<uint64_t>(s.rows) * sizeof(C);
    kernel.run = [=](const Launch& l) {
      auto* rows = static_cast<C*>(l.workspace);
      for_rows<C>(l, s.rows,
                  SquaredError<T>{l.input<T>(0), l.input<T>(1), l.input<C>(2), rows, s.width},
                  "mean_squared_error");
      for_rows<C>(l, 1, SumOf<C, 1>{rows, s.rows, {l.output<C>(0)}}, "mean_squared_error");
    };
    const double numbers = 1.0 * kernel.workspace_bytes;
    add_work(kernel, "mean_squared_error", s.rows, bytes_of(op, 0, 3) + numbers);
    add_work(kernel, "sum of losses", 1, numbers + sizeof(C));
    return kernel;
  });
}

Kernel make_mean_squared_error_backward(const Properties&, const Operation& op) {
  const Shape s = samples_of(op.input(0));
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.run = [=](const Launch& l) {
      for_each(l, s.rows * s.width,
               SquaredErrorBackward<T>{l.input<T>(0), l.input<T>(1), l.input<Compute<T>>(2),
                                       l.input<Compute<T>>(3), l.output<T>(0), s.width},
               "mean_squared_error_backward");
    };
    add_work(kernel, "mean_squared_error_backward", s.rows * s.width,
             bytes_of(op, 0, 4) + bytes_of(op.output(0)));
    return kernel;
  });
}

Kernel make_statistics(const Properties&, const Operation& op) {
  const Shape s = rows_of(op);
  const int64_t first_class = op.integer(RT_ATTR_FIRST_CLASS, 0);
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    return for_width<T, 1, 4, kPacksOfTwoBlocks>(s.width, [&]<int packs, bool whole>() {
      using C = Compute<T>;
      Kernel kernel;
      kernel.run = [=](const Launch& l) {
        const Statistics<T, packs, whole> f{l.input<T>(0), l.input<int32_t>(1), l.output<C>(0),
                                            s.width, first_class};
        for_held_rows<C, packs>(l, s.rows, f, "cross_entropy_statistics");
      };
      add_work(kernel, "cross_entropy_statistics", s.rows,
               bytes_of(op, 0, 2) + bytes_of(op.output(0)));
      return kernel;
    });
  });
}

Kernel make_merge(const Properties&, const Operation& op) {
  const int64_t groups = op.input(0).dims[0], rows = op.input(0).dims[1];
  return for_wide(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    Kernel kernel;
    kernel.workspace_bytes = static_cast<uint64_t>(rows) * 2 * sizeof(C);
    kernel.run = [=](const Launch& l) {
      auto* results = static_cast<C*>(l.workspace);
      for_each(l, rows,
               Merge<T>{l.input<T>(0), l.input<T>(1), l.output<T>(1), results, groups, rows},
               "cross_entropy_merge");
      for_rows<C>(l, 1, SumOf<C, 2>{results, rows, {l.output<C>(0), l.output<C>(2)}},
                  "cross_entropy_merge");
    };
    const double numbers = 1.0 * kernel.workspace_bytes;
    add_work(kernel, "cross_entropy_merge", rows,
             bytes_of(op, 0, 2) + bytes_of(op.output(1)) + numbers);
    add_work(kernel, "sum of losses", 1, numbers + 2 * sizeof(C));
    return kernel;
  });
}

Kernel make_backward_apply(const Properties&, const Operation& op) {
  const Shape s = rows_of(op);
  const int64_t first_class = op.integer(RT_ATTR_FIRST_CLASS, 0);
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    Kernel kernel;
    kernel.run = [=](const Launch& l) {
      const BackwardApply<T, 4, false> f{l.input<T>(0), l.input<int32_t>(1), l.input<C>(2),
                                         l.input<C>(3), l.input<C>(4),       l.output<T>(0),
                                         s.width,       first_class};
      for_held_rows<C, 4>(l, s.rows, f, "cross_entropy_backward_apply");
    };
    add_work(kernel, "cross_entropy_backward_apply", s.rows,
             bytes_of(op, 0, 5) + bytes_of(op.output(0)));
    return kernel;
  });
}

constexpr Entry kEntries[] = {
    {RT_OP_SOFTMAX, make_softmax},
    {RT_OP_SOFTMAX_BACKWARD, make_softmax_backward},
    {RT_OP_LOG_SOFTMAX, make_softmax},
    {RT_OP_LOG_SOFTMAX_BACKWARD, make_softmax_backward},
    {RT_OP_CROSS_ENTROPY, make_cross_entropy},
    {RT_OP_CROSS_ENTROPY_BACKWARD, make_cross_entropy_backward},
    {RT_OP_CROSS_ENTROPY_WITH_GRADIENT, make_cross_entropy_with_gradient},
    {RT_OP_CROSS_ENTROPY_STATISTICS, make_statistics},
    {RT_OP_CROSS_ENTROPY_MERGE, make_merge},
    {RT_OP_CROSS_ENTROPY_BACKWARD_APPLY, make_backward_apply},
    {RT_OP_MEAN_SQUARED_ERROR, make_mean_squared_error},
    {RT_OP_MEAN_SQUARED_ERROR_BACKWARD, make_mean_squared_error_backward},
    {RT_OP_CORRECT_COUNT, make_correct_count},
};

}  // namespace

Family loss_family() { return {kEntries, std::size(kEntries)}; }

}  // namespace backends::gpu
