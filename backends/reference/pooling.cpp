// max_pool2d, avg_pool2d, global_avg_pool and their gradients. x [N,H,W,C], y [N,P,Q,C].
#include "rt/sdk/pooling.h"

#include <algorithm>

#include "backends/reference/check.h"
#include "backends/reference/families.h"

namespace backends::reference {
namespace {

using rt::sdk::PoolingShape;

// The rows [row_begin, row_end) and columns [column_begin, column_end) of a window that lie inside
// the image.
struct Inside {
  int64_t row_begin, row_end, column_begin, column_end;
  int64_t count() const { return (row_end - row_begin) * (column_end - column_begin); }
};

Inside inside(const PoolingShape& s, int64_t p, int64_t q) {
  const int64_t row = s.window.row(p, 0), column = s.window.column(q, 0);
  return {std::max<int64_t>(row, 0), std::min(row + s.window.kernel_h, s.h),
          std::max<int64_t>(column, 0), std::min(column + s.window.kernel_w, s.w)};
}

double divisor(const PoolingShape& s, const Inside& in) {
  return static_cast<double>(s.count_include_pad ? s.window.kernel_h * s.window.kernel_w
                                                 : in.count());
}

// Calls body(image number, output offset of channel 0, the window's part inside the image) for
// every window.
template <typename Body>
void for_each_window(const PoolingShape& s, Body&& body) {
  int64_t out = 0;
  for (int64_t n = 0; n < s.n; ++n) {
    for (int64_t p = 0; p < s.p; ++p) {
      for (int64_t q = 0; q < s.q; ++q, out += s.c) body(n, out, inside(s, p, q));
    }
  }
}

// Saves, for every output element, the offset of the winner within its image, as int64.
template <typename T>
void max_pool(const PoolingShape& s, const T* x, T* y, int64_t* winners) {
  for_each_window(s, [&](int64_t n, int64_t out, const Inside& in) {
    const T* image = x + n * s.image();
    for (int64_t c = 0; c < s.c; ++c) {
      int64_t best = (in.row_begin * s.w + in.column_begin) * s.c + c;
      for (int64_t row = in.row_begin; row < in.row_end; ++row) {
        for (int64_t column = in.column_begin; column < in.column_end; ++column) {
          const int64_t candidate = (row * s.w + column) * s.c + c;
          const T value = image[candidate];
          if (value > image[best] || value != value) best = candidate;
        }
      }
      y[out + c] = image[best];
      winners[out + c] = best;
    }
  });
}

// `sums` [H*W*C] accumulates the gradient of one image in double.
template <typename T>
void max_pool_backward(const PoolingShape& s, const T* dy, const int64_t* winners, double* sums,
                       T* dx) {
  for (int64_t n = 0; n < s.n; ++n) {
    std::fill_n(sums, s.image(), 0.0);
    for (int64_t i = n * s.result(); i < (n + 1) * s.result(); ++i) {
      sums[winners[i]] += static_cast<double>(dy[i]);
    }
    for (int64_t i = 0; i < s.image(); ++i) dx[n * s.image() + i] = static_cast<T>(sums[i]);
  }
}

// `sums` [C] accumulates one window in double.
template <typename T>
void average_pool(const PoolingShape& s, const T* x, double* sums, T* y) {
  for_each_window(s, [&](int64_t n, int64_t out, const Inside& in) {
    const T* image = x + n * s.image();
    std::fill_n(sums, s.c, 0.0);
    for (int64_t row = in.row_begin; row < in.row_end; ++row) {
      for (int64_t column = in.column_begin; column < in.column_end; ++column) {
        const T* pixel = image + (row * s.w + column) * s.c;
        for (int64_t c = 0; c < s.c; ++c) sums[c] += static_cast<double>(pixel[c]);
      }
    }
    const double count = divisor(s, in);
    for (int64_t c = 0; c < s.c; ++c) y[out + c] = static_cast<T>(sums[c] / count);
  });
}

// `sums` [N*H*W*C] accumulates the whole gradient in double.
template <typename T>
void average_pool_backward(const PoolingShape& s, const T* dy, double* sums, T* dx) {
  std::fill_n(sums, s.n * s.image(), 0.0);
  for_each_window(s, [&](int64_t n, int64_t out, const Inside& in) {
    const double count = divisor(s, in);
    for (int64_t row = in.row_begin; row < in.row_end; ++row) {
      for (int64_t column = in.column_begin; column < in.column_end; ++column) {
        double* pixel = sums + n * s.image() + (row * s.w + column) * s.c;
        for (int64_t c = 0; c < s.c; ++c) pixel[c] += static_cast<double>(dy[out + c]) / count;
      }
    }
  });
  for (int64_t i = 0; i < s.n * s.image(); ++i) dx[i] = static_cast<T>(sums[i]);
}

}  // namespace

Kernel make_max_pool2d(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "x");
  const PoolingShape s = rt::sdk::pooling_forward_shape(op, dtype);
  const Kernel needs{.saved_bytes = s.n * s.result() * sizeof(int64_t)};
  return floating_kernel(dtype, needs, [s]<typename T>(const Buffers& b) {
    max_pool(s, b.input<T>(0), b.output<T>(0), static_cast<int64_t*>(b.saved));
  });
}

Kernel make_max_pool2d_backward(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "dy");
  const PoolingShape s = rt::sdk::pooling_backward_shape(op, dtype);
  const Kernel needs{.workspace_bytes = s.image() * sizeof(double),
                     .reads_saved = s.n * s.result() * sizeof(int64_t)};
  return floating_kernel(dtype, needs, [s]<typename T>(const Buffers& b) {
    max_pool_backward(s, b.input<T>(0), static_cast<const int64_t*>(b.saved), b.scratch<double>(),
                      b.output<T>(0));
  });
}

Kernel make_avg_pool2d(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "x");
  const PoolingShape s = rt::sdk::pooling_forward_shape(op, dtype);
  const Kernel needs{.workspace_bytes = s.c * sizeof(double)};
  return floating_kernel(dtype, needs, [s]<typename T>(const Buffers& b) {
    average_pool(s, b.input<T>(0), b.scratch<double>(), b.output<T>(0));
  });
}

Kernel make_avg_pool2d_backward(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "dy");
  const PoolingShape s = rt::sdk::pooling_backward_shape(op, dtype);
  const Kernel needs{.workspace_bytes = s.n * s.image() * sizeof(double)};
  return floating_kernel(dtype, needs, [s]<typename T>(const Buffers& b) {
    average_pool_backward(s, b.input<T>(0), b.scratch<double>(), b.output<T>(0));
  });
}

Kernel make_global_avg_pool(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "x");
  expect_counts(op, 1, 1);
  const Dims x = dims_of(input_of_rank(op, 0, "x", 4));
  expect_output(op, 0, "y", dtype, {x[0], x[3]});
  const int64_t n = x[0], pixels = x[1] * x[2], c = x[3];
  const Kernel needs{.workspace_bytes = c * sizeof(double)};
  return floating_kernel(dtype, needs, [=]<typename T>(const Buffers& b) {
    double* sums = b.scratch<double>();
    for (int64_t i = 0; i < n; ++i) {
      std::fill_n(sums, c, 0.0);
      const T* image = b.input<T>(0) + i * pixels * c;
      for (int64_t j = 0; j < pixels * c; ++j) sums[j % c] += static_cast<double>(image[j]);
      T* y = b.output<T>(0) + i * c;
      for (int64_t j = 0; j < c; ++j) y[j] = static_cast<T>(sums[j] / static_cast<double>(pixels));
    }
  });
}

Kernel make_global_avg_pool_backward(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "dy");
  expect_counts(op, 1, 1);
  const Dims dx = dims_of(output_of_rank(op, 0, "dx", 4));
  expect_input(op, 0, "dy", dtype, {dx[0], dx[3]});
  expect_output(op, 0, "dx", dtype, dx);
  const int64_t n = dx[0], pixels = dx[1] * dx[2], c = dx[3];
  return floating_kernel(dtype, {}, [=]<typename T>(const Buffers& b) {
    T* result = b.output<T>(0);
    for (int64_t i = 0; i < n; ++i) {
      const T* dy = b.input<T>(0) + i * c;
      for (int64_t j = 0; j < pixels * c; ++j) {
        *result++ = static_cast<T>(static_cast<double>(dy[j % c]) / static_cast<double>(pixels));
      }
    }
  });
}

}  // namespace backends::reference
