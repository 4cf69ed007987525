// reduce, square_sum, clip_scale. Sums are made in double, in an order that depends only on the
// shape and the number of threads.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "backends/cpu/native.h"
#include "backends/cpu/parallel.h"
#include "rt/operations.h"

namespace backends::cpu {
namespace {

// The axes with neighbours of the same kind merged: their extents, and whether each is reduced.
struct Groups {
  int32_t count = 0;
  std::array<int64_t, RT_MAX_RANK> extent{};
  std::array<bool, RT_MAX_RANK> reduced{};
  void append(int64_t size, bool reduce) {
    if (size == 1) return;
    if (count > 0 && reduced[static_cast<size_t>(count - 1)] == reduce) {
      extent[static_cast<size_t>(count - 1)] *= size;
      return;
    }
    extent[static_cast<size_t>(count)] = size;
    reduced[static_cast<size_t>(count)] = reduce;
    ++count;
  }
};

// The loops of a reduction: `outer` blocks of rows x columns elements, each of which gives
// `columns` results. If the reduced axes form several separate groups, `simple` is false and
// reduce_odometer goes through the elements one by one.
struct Reduction {
  int32_t function = RT_REDUCE_SUM;
  Groups groups;
  int64_t results = 1, terms = 1;
  int64_t rows = 1, columns = 1, outer = 1;  // valid only if `simple`
  bool simple = true;  // the axes are [outer kept][rows reduced][columns kept]
};

void check_output(const Operation& op, int64_t mask) {
  const rt_tensor_desc &x = op.input(0), &y = op.output(0);
  std::string kept, dropped;
  std::vector<int64_t> with_ones, without;
  for (int32_t i = 0; i < x.rank; ++i) {
    const bool reduce = (mask >> i) & 1;
    with_ones.push_back(reduce ? 1 : x.dims[i]);
    if (!reduce) without.push_back(x.dims[i]);
  }
  const auto equals = [&](const std::vector<int64_t>& dims) {
    return static_cast<size_t>(y.rank) == dims.size() &&
           std::equal(dims.begin(), dims.end(), y.dims);
  };
  if (equals(with_ones) || equals(without)) return;
  op.fail("output " + rt::sdk::to_string(y) + " is not " + rt::sdk::to_string(x) +
          rt::sdk::format(" without the axes of mask %ld", static_cast<long>(mask)));
}

Reduction plan_reduction(const Operation& op) {
  Reduction r;
  r.function = static_cast<int32_t>(op.integer(RT_ATTR_FUNCTION));
  if (r.function < RT_REDUCE_SUM || r.function > RT_REDUCE_MAX) {
    op.fail(rt::sdk::format("function %d is unknown; known are 1 to 3", r.function));
  }
  const int64_t mask = op.integer(RT_ATTR_AXES);
  check_output(op, mask);
  const rt_tensor_desc& x = op.input(0);
  for (int32_t i = 0; i < x.rank; ++i) {
    const bool reduce = (mask >> i) & 1;
    r.groups.append(x.dims[i], reduce);
    (reduce ? r.terms : r.results) *= x.dims[i];
  }
  const Groups& g = r.groups;
  int32_t at = 0;
  const auto take = [&](bool reduced, int64_t& extent) {
    if (at < g.count && g.reduced[static_cast<size_t>(at)] == reduced) {
      extent = g.extent[static_cast<size_t>(at++)];
    }
  };
  take(false, r.outer), take(true, r.rows), take(false, r.columns);
  r.simple = at == g.count;
  return r;
}

double start_value(const Reduction& r) {
  return r.function == RT_REDUCE_MAX ? -std::numeric_limits<double>::infinity() : 0.0;
}
double larger(double a, double b) { return b > a || b != b ? b : a; }  // NaN counts as larger
double factor(const Reduction& r) {
  return r.function == RT_REDUCE_MEAN ? 1.0 / static_cast<double>(std::max<int64_t>(r.terms, 1))
                                      : 1.0;
}

void columns_into(const kernels::Table& kernel, const Reduction& r, const float* x, int64_t rows,
                  int64_t columns, double* total) {
  if (r.function == RT_REDUCE_MAX) {
    kernel.column_max(x, rows, r.columns, columns, total);
  } else {
    kernel.column_sum(x, rows, r.columns, columns, total);
  }
}

// Reduces one block whose rows are divided among the threads. Each thread has its own totals, which
// are added in the order of the threads.
void reduce_rows(const kernels::Table& kernel, const Reduction& r, int threads, const float* x,
                 float* y, double* totals) {
  const int64_t columns = r.columns;
  std::fill(totals, totals + threads * columns, start_value(r));
  parallel_parts(threads, r.rows, kElementGrain / (columns + 1) + 1, 4,
                 [&](int part, int64_t begin, int64_t end) {
                   columns_into(kernel, r, x + begin * columns, end - begin, columns,
                                totals + part * columns);
                 });
  for (int part = 1; part < threads; ++part) {
    for (int64_t c = 0; c < columns; ++c) {
      const double value = totals[part * columns + c];
      totals[c] = r.function == RT_REDUCE_MAX ? larger(totals[c], value) : totals[c] + value;
    }
  }
  kernel.store_scaled(totals, factor(r), y, columns);
}

// Reduces many blocks; each block is done by one thread.
void reduce_blocks(const kernels::Table& kernel, const Reduction& r, int threads, const float* x,
                   float* y, double* totals) {
  const int64_t block = r.rows * r.columns;
  parallel_parts(threads, r.outer, kElementGrain / (block + 1) + 1, 1,
                 [&](int part, int64_t begin, int64_t end) {
                   double* total = totals + part * r.columns;
                   for (int64_t o = begin; o < end; ++o) {
                     if (r.columns == 1) {
                       const double value = r.function == RT_REDUCE_MAX
                                                ? kernel.row_max(x + o * block, block)
                                                : kernel.row_sum(x + o * block, block);
                       y[o] = static_cast<float>(value * factor(r));
                       continue;
                     }
                     std::fill(total, total + r.columns, start_value(r));
                     columns_into(kernel, r, x + o * block, r.rows, r.columns, total);
                     kernel.store_scaled(total, factor(r), y + o * r.columns, r.columns);
                   }
                 });
}

// Reduces any order of axes in one thread: every element goes to the total that belongs to its kept
// axes.
void reduce_odometer(const kernels::Table& kernel, const Reduction& r, const float* x, float* y,
                     double* totals) {
  std::fill(totals, totals + r.results, start_value(r));
  const Groups& g = r.groups;
  std::array<int64_t, RT_MAX_RANK> stride{};
  int64_t next = 1;
  for (int32_t i = g.count; i-- > 0;) {
    const auto at = static_cast<size_t>(i);
    stride[at] = g.reduced[at] ? 0 : next;
    if (!g.reduced[at]) next *= g.extent[at];
  }
  for (int64_t e = 0; e < r.results * r.terms; ++e) {
    int64_t rest = e, target = 0;
    for (int32_t i = g.count; i-- > 0;) {
      const auto at = static_cast<size_t>(i);
      target += rest % g.extent[at] * stride[at];
      rest /= g.extent[at];
    }
    double& total = totals[target];
    total = r.function == RT_REDUCE_MAX ? larger(total, x[e]) : total + x[e];
  }
  kernel.store_scaled(totals, factor(r), y, r.results);
}

std::unique_ptr<Plan> make_reduce(const NativeContext& context, const Operation& op) {
  expect_counts(op, 1, 1);
  expect_float(op);
  const Reduction r = plan_reduction(op);
  const int threads = context.engine.threads();
  auto plan = make_plan(context, "native:reduce",
                        [=, &kernel = context.engine.kernels()](const rt_launch& l) {
                          const float* x = input<float>(l, 0);
                          float* y = output<float>(l, 0);
                          auto* totals = static_cast<double*>(l.workspace);
                          if (!r.simple) {
                            reduce_odometer(kernel, r, x, y, totals);
                          } else if (r.outer == 1) {
                            reduce_rows(kernel, r, threads, x, y, totals);
                          } else {
                            reduce_blocks(kernel, r, threads, x, y, totals);
                          }
                        });
  const int64_t doubles = r.simple ? threads * r.columns : r.results;
  plan->edit().workspace_bytes = static_cast<uint64_t>(doubles) * sizeof(double);
  return plan;
}

std::unique_ptr<Plan> make_square_sum(const NativeContext& context, const Operation& op) {
  expect_counts(op, 1, 1);
  expect_float(op);
  expect_elements(op, op.output(0), 1, "output");
  const int64_t count = rt::sdk::element_count(op.input(0));
  const int threads = context.engine.threads();
  constexpr int64_t kStride = 8;  // one cache line for the sum of each thread
  auto plan = make_plan(
      context, "native:square_sum", [=, &kernel = context.engine.kernels()](const rt_launch& l) {
        auto* sums = static_cast<double*>(l.workspace);
        const float* x = input<float>(l, 0);
        std::fill(sums, sums + threads * kStride, 0.0);
        parallel_parts(threads, count, kElementGrain, 16, [&](int part, int64_t b, int64_t e) {
          sums[part * kStride] = kernel.square_sum(x + b, e - b);
        });
        double total = 0;
        for (int i = 0; i < threads; ++i) total += sums[i * kStride];
        *output<float>(l, 0) = static_cast<float>(total);
      });
  plan->edit().workspace_bytes = static_cast<uint64_t>(threads) * kStride * sizeof(double);
  return plan;
}

std::unique_ptr<Plan> make_clip_scale(const NativeContext& context, const Operation& op) {
  expect_counts(op, 1, 1);
  expect_float(op);
  expect_elements(op, op.input(0), 1, "s");
  expect_elements(op, op.output(0), 1, "c");
  const double max_norm = op.number(RT_ATTR_MAX_NORM);
  return make_plan(context, "native:clip_scale", [=](const rt_launch& l) {
    const double norm = std::sqrt(static_cast<double>(*input<float>(l, 0)));
    // The comparison lets a NaN norm give NaN and not 1, so that the user sees it.
    const double c = max_norm / (norm + 1e-6);
    *output<float>(l, 0) = static_cast<float>(c > 1.0 ? 1.0 : c);
  });
}

constexpr NativeKernel kReductionKernels[] = {
    {RT_OP_REDUCE, LayoutRule::kCanonical, make_reduce},
    {RT_OP_SQUARE_SUM, LayoutRule::kCanonical, make_square_sum},
    {RT_OP_CLIP_SCALE, LayoutRule::kCanonical, make_clip_scale},
};

}  // namespace

KernelTable reduction_kernels() { return {kReductionKernels, std::size(kReductionKernels)}; }

}  // namespace backends::cpu
