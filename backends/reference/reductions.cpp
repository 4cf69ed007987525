// reduce, square_sum, clip_scale and loss_scale.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/reference/families.h"
#include "backends/reference/strided.h"
#include "rt/sdk/reduction.h"

namespace backends::reference {
namespace {

using Reduction = rt::sdk::ReductionShape;

// The larger of the two numbers. NaN counts as larger, so that the user sees it.
double larger(double a, double b) { return a > b || a != a ? a : b; }

template <typename T>
void reduce(const Reduction& r, const StridedRows<1>& rows, const T* x, double* sums, T* y) {
  const bool max = r.function == RT_REDUCE_MAX;
  std::fill_n(sums, r.results, max ? -std::numeric_limits<double>::infinity() : 0.0);
  rows.for_each([&](int64_t in, const std::array<int64_t, 1>& out) {
    double* target = sums + out[0];
    const int64_t step = rows.step(0);
    for (int64_t i = 0; i < rows.length(); ++i) {
      const double value = static_cast<double>(x[in + i]);
      target[i * step] = max ? larger(target[i * step], value) : target[i * step] + value;
    }
  });
  const double divisor = r.function == RT_REDUCE_MEAN ? static_cast<double>(r.reduced) : 1.0;
  for (int64_t i = 0; i < r.results; ++i) y[i] = static_cast<T>(sums[i] / divisor);
}

}  // namespace

Kernel make_reduce(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "x");
  const Reduction r = rt::sdk::reduction_shape(op, dtype);
  const Kernel needs{.workspace_bytes = r.results * sizeof(double)};
  return floating_kernel(
      dtype, needs,
      [r, rows = StridedRows<1>(r.input, {r.result_strides})]<typename T>(const Buffers& b) {
        reduce(r, rows, b.input<T>(0), b.scratch<double>(), b.output<T>(0));
      });
}

Kernel make_square_sum(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "x");
  expect_counts(op, 1, 1);
  expect_output(op, 0, "s", dtype, {1});
  const int64_t count = rt::sdk::element_count(op.input(0));
  return floating_kernel(dtype, {}, [count]<typename T>(const Buffers& b) {
    const T* x = b.input<T>(0);
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * x[i];
    *b.output<T>(0) = static_cast<T>(sum);
  });
}

Kernel make_clip_scale(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "s");
  expect_counts(op, 1, 1);
  expect_input(op, 0, "s", dtype, {1});
  expect_output(op, 0, "c", dtype, {1});
  const double max_norm = op.number(RT_ATTR_MAX_NORM);
  if (!(max_norm > 0)) op.fail(rt::sdk::format("max_norm is %g, expected more than 0", max_norm));
  const Kernel needs{.in_place = {1u << 0}};
  return floating_kernel(dtype, needs, [max_norm]<typename T>(const Buffers& b) {
    const double norm = std::sqrt(static_cast<double>(*b.input<T>(0)));
    const double c = max_norm / (norm + 1e-6);
    *b.output<T>(0) = static_cast<T>(c > 1.0 ? 1.0 : c);  // a NaN norm gives NaN
  });
}

Kernel make_loss_scale(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "s");
  expect_counts(op, 2, 2);
  expect_input(op, 0, "s", dtype, {1});
  expect_input(op, 1, "state", dtype, {3});
  expect_output(op, 0, "c", dtype, {1});
  expect_output(op, 1, "state", dtype, {3});
  const double max_norm = op.number(RT_ATTR_MAX_NORM, 0.0);
  const Kernel needs{.in_place = {0, 1u << 1}};
  return floating_kernel(dtype, needs, [max_norm]<typename T>(const Buffers& b) {
    const double sum = *b.input<T>(0);
    const T* state = b.input<T>(1);
    double scale = state[0], good = state[1] + 1.0, skipped = state[2], c = 0;
    if (std::isfinite(sum)) {
      c = 1 / scale;
      if (max_norm > 0) c *= std::min(1.0, max_norm / (std::sqrt(sum) / scale + 1e-6));
      if (good == RT_LOSS_SCALE_INTERVAL) {
        scale = std::min(2 * scale, RT_LOSS_SCALE_LARGEST);
        good = 0;
      }
    } else {
      scale = std::max(scale / 2, RT_LOSS_SCALE_SMALLEST);
      good = 0;
      skipped += 1;
    }
    *b.output<T>(0) = static_cast<T>(c);
    T* next = b.output<T>(1);
    next[0] = static_cast<T>(scale);
    next[1] = static_cast<T>(good);
    next[2] = static_cast<T>(skipped);
  });
}

}  // namespace backends::reference
