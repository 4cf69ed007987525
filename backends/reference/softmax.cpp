// softmax, log_softmax and their gradients, over the last dimension.
#include <cmath>

#include "backends/reference/check.h"
#include "backends/reference/families.h"
#include "backends/reference/row.h"

namespace backends::reference {
namespace {

struct RowsShape {
  int64_t rows, width;
};

RowsShape read_rows_shape(const Operation& op, rt_dtype dtype, const char* name) {
  const Dims dims = dims_of(input_of_min_rank(op, 0, name, 1));
  if (dims.back() < 1) op.fail("the last dimension is 0, expected at least 1");
  expect_output(op, 0, op.own_input_count() == 1 ? "y" : "dx", dtype, dims);
  return {product(dims) / dims.back(), dims.back()};
}

// y[j] = function(log(softmax(x)[j])).
template <typename Function>
Kernel forward(const Operation& op, Function function) {
  const rt_dtype dtype = floating_input(op, 0, "x");
  expect_counts(op, 1, 1);
  const RowsShape s = read_rows_shape(op, dtype, "x");
  const Kernel needs{.in_place = {1u << 0}};
  return floating_kernel(dtype, needs, [s, function]<typename T>(const Buffers& b) {
    for (int64_t i = 0; i < s.rows; ++i) {
      const T* x = b.input<T>(0) + i * s.width;
      T* y = b.output<T>(0) + i * s.width;
      const RowSum sum = sum_row(x, s.width);
      for (int64_t j = 0; j < s.width; ++j) {
        y[j] = static_cast<T>(function(sum.log_probability(x[j])));
      }
    }
  });
}

// dx[j] = last(dy[j], y[j], sum over j of term(dy[j], y[j])).
template <typename Term, typename Last>
Kernel backward(const Operation& op, Term term, Last last) {
  const rt_dtype dtype = floating_input(op, 0, "dy");
  expect_counts(op, 2, 1);
  expect_input(op, 1, "y", dtype, dims_of(op.input(0)));
  const RowsShape s = read_rows_shape(op, dtype, "dy");
  const Kernel needs{.in_place = {1u << 0 | 1u << 1}};
  return floating_kernel(dtype, needs, [s, term, last]<typename T>(const Buffers& b) {
    for (int64_t i = 0; i < s.rows; ++i) {
      const T* dy = b.input<T>(0) + i * s.width;
      const T* y = b.input<T>(1) + i * s.width;
      T* dx = b.output<T>(0) + i * s.width;
      double sum = 0;
      for (int64_t j = 0; j < s.width; ++j) sum += term(dy[j], y[j]);
      for (int64_t j = 0; j < s.width; ++j) dx[j] = static_cast<T>(last(dy[j], y[j], sum));
    }
  });
}

}  // namespace

Kernel make_softmax(const Operation& op) {
  return forward(op, [](double x) { return std::exp(x); });
}

Kernel make_log_softmax(const Operation& op) {
  return forward(op, [](double x) { return x; });
}

Kernel make_softmax_backward(const Operation& op) {
  return backward(
      op, [](double dy, double y) { return dy * y; },
      [](double dy, double y, double sum) { return y * (dy - sum); });
}

Kernel make_log_softmax_backward(const Operation& op) {
  return backward(
      op, [](double dy, double) { return dy; },
      [](double dy, double y, double sum) { return dy - std::exp(y) * sum; });
}

}  // namespace backends::reference
