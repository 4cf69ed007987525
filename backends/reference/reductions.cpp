// reduce, square_sum, clip_scale and loss_scale.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/reference/families.h"
#include "backends/reference/strided.h"

namespace backends::reference {
namespace {

struct Reduction {
  int64_t function;
  int64_t results;  // number of results
  double divisor;   // number of elements in one mean
  Dims input_dims;
  Dims result_strides;  // strides over input_dims, 0 along the reduced axes
};

Reduction check(const Operation& op, rt_dtype dtype) {
  expect_counts(op, 1, 1);
  Reduction r{};
  r.function = op.integer(RT_ATTR_FUNCTION);
  if (r.function < RT_REDUCE_SUM || r.function > RT_REDUCE_MAX) {
    op.fail(rt::sdk::format("function is %lld, expected 1 (sum), 2 (mean) or 3 (max)",
                            static_cast<long long>(r.function)));
  }
  r.input_dims = dims_of(op.input(0));
  const int64_t axes = op.integer(RT_ATTR_AXES);
  if (axes < 0 || axes >> r.input_dims.size() != 0) {
    op.fail(rt::sdk::format("axes is the mask 0x%llx, expected bits below the rank %zu only",
                            static_cast<unsigned long long>(axes), r.input_dims.size()));
  }
  Dims kept, squeezed;
  int64_t reduced = 1;
  for (size_t d = 0; d < r.input_dims.size(); ++d) {
    const bool reduce = (axes >> d & 1) != 0;
    kept.push_back(reduce ? 1 : r.input_dims[d]);
    if (!reduce) squeezed.push_back(r.input_dims[d]);
    if (reduce) reduced *= r.input_dims[d];
  }
  if (dims_of(op.output(0)) != squeezed) expect_output(op, 0, "y", dtype, kept);
  expect_output(op, 0, "y", dtype, dims_of(op.output(0)));
  r.results = product(kept);
  r.divisor = static_cast<double>(reduced);
  r.result_strides = strides_of(kept);
  for (size_t d = 0; d < kept.size(); ++d) {
    if (axes >> d & 1) r.result_strides[d] = 0;
  }
  return r;
}

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
  const double divisor = r.function == RT_REDUCE_MEAN ? r.divisor : 1.0;
  for (int64_t i = 0; i < r.results; ++i) y[i] = static_cast<T>(sums[i] / divisor);
}

}  // namespace

Kernel make_reduce(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "x");
  const Reduction r = check(op, dtype);
  return for_floating(dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.workspace_bytes = r.results * sizeof(double);
    kernel.run = [r, rows = StridedRows<1>(r.input_dims, {r.result_strides})](const Buffers& b) {
      reduce(r, rows, b.input<T>(0), b.scratch<double>(), b.output<T>(0));
    };
    return kernel;
  });
}

Kernel make_square_sum(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "x");
  expect_counts(op, 1, 1);
  expect_output(op, 0, "s", dtype, {1});
  const int64_t count = rt::sdk::element_count(op.input(0));
  return for_floating(dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.run = [count](const Buffers& b) {
      const T* x = b.input<T>(0);
      double sum = 0;
      for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * x[i];
      *b.output<T>(0) = static_cast<T>(sum);
    };
    return kernel;
  });
}

Kernel make_clip_scale(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "s");
  expect_counts(op, 1, 1);
  expect_input(op, 0, "s", dtype, {1});
  expect_output(op, 0, "c", dtype, {1});
  const double max_norm = op.number(RT_ATTR_MAX_NORM);
  if (!(max_norm > 0)) op.fail(rt::sdk::format("max_norm is %g, expected more than 0", max_norm));
  return for_floating(dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.in_place[0] = 1u << 0;
    kernel.run = [max_norm](const Buffers& b) {
      const double norm = std::sqrt(static_cast<double>(*b.input<T>(0)));
      const double c = max_norm / (norm + 1e-6);
      *b.output<T>(0) = static_cast<T>(c > 1.0 ? 1.0 : c);  // a NaN norm gives NaN
    };
    return kernel;
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
  return for_floating(dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.in_place[1] = 1u << 1;
    kernel.run = [max_norm](const Buffers& b) {
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
    };
    return kernel;
  });
}

}  // namespace backends::reference
