// softmax, log_softmax, cross_entropy (whole, and with classes split over tensor-parallel ranks),
// mean_squared_error, correct_count, and their gradients. A block of threads computes one row.
#include "backends/gpu/rows.h"

namespace backends::gpu {
namespace {

template <typename T>
struct Softmax {
  using C = Compute<T>;
  const T* x;
  T* y;
  int64_t width;
  bool logarithm;
  GPU_DEVICE void operator()(int64_t row, C* scratch) const {
    const T* from = x + row * width;
    const RowSum<C> s = sum_row(from, width, scratch);
    const C log_sum = log_of(s.sum);
    for (int64_t j = threadIdx.x; j < width; j += kBlock) {
      const C d = static_cast<C>(from[j]) - s.largest;
      y[row * width + j] = static_cast<T>(logarithm ? d - log_sum : exp_of(d) / s.sum);
    }
  }
};

template <typename T>
struct SoftmaxBackward {
  using C = Compute<T>;
  const T *dy, *y;
  T* dx;
  int64_t width;
  bool logarithm;
  GPU_DEVICE void operator()(int64_t row, C* scratch) const {
    const T *d = dy + row * width, *p = y + row * width;
    const C sum = block_sum(width, scratch, [&](int64_t j) {
      return logarithm ? static_cast<C>(d[j]) : static_cast<C>(d[j]) * static_cast<C>(p[j]);
    });
    for (int64_t j = threadIdx.x; j < width; j += kBlock) {
      const C g = static_cast<C>(d[j]), q = static_cast<C>(p[j]);
      dx[row * width + j] = static_cast<T>(logarithm ? g - exp_of(q) * sum : q * (g - sum));
    }
  }
};

template <typename T>
struct CrossEntropy {
  using C = Compute<T>;
  const T* logits;
  const int32_t* labels;
  const C* weight;
  C* row_loss;
  int64_t width;
  GPU_DEVICE void operator()(int64_t row, C* scratch) const {
    const T* from = logits + row * width;
    const C w = weight[row];
    const RowSum<C> s = sum_row(from, width, scratch);
    // A padding row may hold anything, even NaN.
    const C loss =
        w == C(0) ? C(0) : w * (log_of(s.sum) - (static_cast<C>(from[labels[row]]) - s.largest));
    if (threadIdx.x == 0) row_loss[row] = loss;
  }
};

template <typename T>
struct CrossEntropyBackward {
  using C = Compute<T>;
  const T* logits;
  const int32_t* labels;
  const C *weight, *dloss;
  T* dlogits;
  int64_t width;
  GPU_DEVICE void operator()(int64_t row, C* scratch) const {
    const T* from = logits + row * width;
    const C w = weight[row], factor = w * *dloss;
    const RowSum<C> s = sum_row(from, width, scratch);
    const int64_t label = labels[row];
    for (int64_t j = threadIdx.x; j < width; j += kBlock) {
      const C p = exp_of(static_cast<C>(from[j]) - s.largest) / s.sum;
      dlogits[row * width + j] =
          w == C(0) ? static_cast<T>(0) : static_cast<T>(factor * (p - (j == label ? C(1) : C(0))));
    }
  }
};

template <typename T>
struct Correct {
  using C = Compute<T>;
  const T* logits;
  const int32_t* labels;
  const C* weight;
  C* row_count;
  int64_t width;
  GPU_DEVICE void operator()(int64_t row, C* scratch) const {
    const T* from = logits + row * width;
    const RowSum<C> s = sum_row(from, width, scratch);
    const int64_t first = first_largest(from, width, s.largest, scratch);
    if (threadIdx.x == 0) row_count[row] = first == labels[row] && weight[row] > C(0) ? C(1) : C(0);
  }
};

// Each row of part [rows,4] holds, for the classes of this rank: the largest logit, the sum of
// exp(logit - largest), the label's logit (0 if another rank has it), and whether the first largest
// logit is the label's.
template <typename T>
struct Statistics {
  using C = Compute<T>;
  const T* logits;
  const int32_t* labels;
  C* part;
  int64_t width, first_class;
  GPU_DEVICE void operator()(int64_t row, C* scratch) const {
    const T* from = logits + row * width;
    const RowSum<C> s = sum_row(from, width, scratch);
    const int64_t first = first_largest(from, width, s.largest, scratch);
    if (threadIdx.x != 0) return;
    const int64_t label = labels[row] - first_class;
    const bool mine = label >= 0 && label < width;
    C* to = part + row * 4;
    to[0] = s.largest;
    to[1] = s.largest == C(-INFINITY) ? C(0) : s.sum;  // if all logits are -infinity
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

template <typename T>
struct BackwardApply {
  using C = Compute<T>;
  const T* logits;
  const int32_t* labels;
  const C *weight, *dloss, *merged;
  T* dlogits;
  int64_t width, first_class;
  GPU_DEVICE void operator()(int64_t i) const {
    const int64_t row = i / width, j = i - row * width;
    const C w = weight[row];
    const C p = exp_of(static_cast<C>(logits[i]) - merged[row * 2] - merged[row * 2 + 1]);
    const C hit = j == labels[row] - first_class ? C(1) : C(0);
    dlogits[i] = w == C(0) ? static_cast<T>(0) : static_cast<T>(w * *dloss * (p - hit));
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
};
Shape rows_of(const rt_tensor_desc& x) { return {row_count(x), last_dim(x)}; }
// The shape of y [n,...] as n rows, each with all elements of one sample.
Shape samples_of(const rt_tensor_desc& y) {
  const int64_t count = rt::sdk::element_count(y);
  return {y.dims[0], y.dims[0] == 0 ? 0 : count / y.dims[0]};
}

Kernel make_softmax(const Properties&, const Operation& op) {
  const Shape s = rows_of(op.input(0));
  const bool logarithm = op.is(RT_OP_LOG_SOFTMAX) || op.is(RT_OP_LOG_SOFTMAX_BACKWARD);
  const bool backward = op.is(RT_OP_SOFTMAX_BACKWARD) || op.is(RT_OP_LOG_SOFTMAX_BACKWARD);
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    Kernel kernel;
    kernel.run = [=](const Launch& l) {
      if (backward) {
        for_rows<C>(
            l, s.rows,
            SoftmaxBackward<T>{l.input<T>(0), l.input<T>(1), l.output<T>(0), s.width, logarithm},
            "softmax_backward");
      } else {
        for_rows<C>(l, s.rows, Softmax<T>{l.input<T>(0), l.output<T>(0), s.width, logarithm},
                    "softmax");
      }
    };
    return kernel;
  });
}

// Runs a row kernel that writes one number per row to the workspace, and sums these numbers.
template <template <typename> typename RowKernel, typename T, typename Second>
Kernel summed_rows(const Shape& s, const char* name) {
  using C = Compute<T>;
  Kernel kernel;
  kernel.workspace_bytes = static_cast<uint64_t>(s.rows) * sizeof(C);
  kernel.run = [=](const Launch& l) {
    auto* rows = static_cast<C*>(l.workspace);
    for_rows<C>(l, s.rows,
                RowKernel<T>{l.input<T>(0), l.input<Second>(1), l.input<C>(2), rows, s.width},
                name);
    for_rows<C>(l, 1, SumOf<C, 1>{rows, s.rows, {l.output<C>(0)}}, name);
  };
  return kernel;
}

Kernel make_cross_entropy(const Properties&, const Operation& op) {
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    return summed_rows<CrossEntropy, T, int32_t>(rows_of(op.input(0)), "cross_entropy");
  });
}

Kernel make_correct_count(const Properties&, const Operation& op) {
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    return summed_rows<Correct, T, int32_t>(rows_of(op.input(0)), "correct_count");
  });
}

Kernel make_mean_squared_error(const Properties&, const Operation& op) {
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    return summed_rows<SquaredError, T, T>(samples_of(op.input(0)), "mean_squared_error");
  });
}

Kernel make_cross_entropy_backward(const Properties&, const Operation& op) {
  const Shape s = rows_of(op.input(0));
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.run = [=](const Launch& l) {
      for_rows<Compute<T>>(
          l, s.rows,
          CrossEntropyBackward<T>{l.input<T>(0), l.input<int32_t>(1), l.input<Compute<T>>(2),
                                  l.input<Compute<T>>(3), l.output<T>(0), s.width},
          "cross_entropy_backward");
    };
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
    return kernel;
  });
}

Kernel make_statistics(const Properties&, const Operation& op) {
  const Shape s = rows_of(op.input(0));
  const int64_t first_class = op.integer(RT_ATTR_FIRST_CLASS, 0);
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.run = [=](const Launch& l) {
      for_rows<Compute<T>>(l, s.rows,
                           Statistics<T>{l.input<T>(0), l.input<int32_t>(1),
                                         l.output<Compute<T>>(0), s.width, first_class},
                           "cross_entropy_statistics");
    };
    return kernel;
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
    return kernel;
  });
}

Kernel make_backward_apply(const Properties&, const Operation& op) {
  const Shape s = rows_of(op.input(0));
  const int64_t first_class = op.integer(RT_ATTR_FIRST_CLASS, 0);
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.run = [=](const Launch& l) {
      for_each(l, s.rows * s.width,
               BackwardApply<T>{l.input<T>(0), l.input<int32_t>(1), l.input<Compute<T>>(2),
                                l.input<Compute<T>>(3), l.input<Compute<T>>(4), l.output<T>(0),
                                s.width, first_class},
               "cross_entropy_backward_apply");
    };
    return kernel;
  });
}

constexpr Entry kEntries[] = {
    {RT_OP_SOFTMAX, make_softmax},
    {RT_OP_SOFTMAX_BACKWARD, make_softmax},
    {RT_OP_LOG_SOFTMAX, make_softmax},
    {RT_OP_LOG_SOFTMAX_BACKWARD, make_softmax},
    {RT_OP_CROSS_ENTROPY, make_cross_entropy},
    {RT_OP_CROSS_ENTROPY_BACKWARD, make_cross_entropy_backward},
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
