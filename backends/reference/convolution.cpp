// conv2d and its two gradients, as matrix products over patches. Row (p, q) of the patches of one
// image and one group holds the KH*KW*(C/G) elements that output pixel (p, q) reads, with zeros for
// padding. With the weights of the group as a matrix [O/G, KH*KW*C/G]:
//   y = patches w^T,   dpatches = dy w (scattered back to dx),   dw = dy^T patches.
#include <algorithm>

#include "backends/reference/families.h"
#include "backends/reference/product.h"
#include "backends/reference/window.h"

namespace backends::reference {
namespace {

struct Shape {
  Window window;
  int64_t n, h, w, c;      // image
  int64_t p, q, o;         // result
  int64_t groups, cg, og;  // channels of one group
  int64_t pixels() const { return p * q; }
  int64_t patch() const { return window.kernel_h * window.kernel_w * cg; }
};

// Reads the sizes of x [N,H,W,C], w [O,KH,KW,C/G] and y [N,P,Q,O]. x and w are passed as
// descriptions, because the operations have them as different operands.
Shape read_shape(const Operation& op, const rt_tensor_desc& x, const rt_tensor_desc& w) {
  Shape s{};
  s.n = x.dims[0], s.h = x.dims[1], s.w = x.dims[2], s.c = x.dims[3];
  s.o = w.dims[0], s.cg = w.dims[3];
  s.groups = integer_at_least(op, RT_ATTR_GROUPS, 1, 1);
  if (s.cg * s.groups != s.c || s.o % s.groups != 0) {
    op.fail(rt::sdk::format(
        "weights are [O, KH, KW, C/groups] = %s with %lld groups and %lld image channels, expected "
        "%lld input channels for each group and O a multiple of the groups",
        to_string(dims_of(w)).c_str(), static_cast<long long>(s.groups),
        static_cast<long long>(s.c), static_cast<long long>(s.c / s.groups)));
  }
  s.og = s.o / s.groups;
  s.window = convolution_window(op, w.dims[1], w.dims[2]);
  const Dims y = window_output(op, s.window, dims_of(x), s.o);
  s.p = y[1], s.q = y[2];
  return s;
}

Dims image_dims(const Shape& s) { return {s.n, s.h, s.w, s.c}; }
Dims weight_dims(const Shape& s) { return {s.o, s.window.kernel_h, s.window.kernel_w, s.cg}; }
Dims result_dims(const Shape& s) { return {s.n, s.p, s.q, s.o}; }

// Calls body(offset of the run in the image, or -1 for padding; offset in the patches) for every
// run of cg channels of one image and group. Offsets are in elements.
template <typename Body>
void for_each_run(const Shape& s, int64_t group, Body&& body) {
  int64_t offset = 0;
  for (int64_t p = 0; p < s.p; ++p) {
    for (int64_t q = 0; q < s.q; ++q) {
      for (int64_t kh = 0; kh < s.window.kernel_h; ++kh) {
        for (int64_t kw = 0; kw < s.window.kernel_w; ++kw, offset += s.cg) {
          const int64_t row = s.window.row(p, kh), column = s.window.column(q, kw);
          const bool inside = row >= 0 && row < s.h && column >= 0 && column < s.w;
          body(inside ? (row * s.w + column) * s.c + group * s.cg : -1, offset);
        }
      }
    }
  }
}

template <typename T>
void gather_patches(const Shape& s, const T* image, int64_t group, T* patches) {
  for_each_run(s, group, [&](int64_t source, int64_t offset) {
    if (source < 0) {
      std::fill_n(patches + offset, s.cg, T(0));
    } else {
      std::copy_n(image + source, s.cg, patches + offset);
    }
  });
}

template <typename T>
void forward(const Shape& s, const Buffers& b) {
  double* panel = b.scratch<double>();
  T* patches = reinterpret_cast<T*>(panel + panel_elements(s.patch()));
  for (int64_t n = 0; n < s.n; ++n) {
    T* y = b.output<T>(0) + n * s.pixels() * s.o;
    for (int64_t g = 0; g < s.groups; ++g) {
      gather_patches(s, b.input<T>(0) + n * s.h * s.w * s.c, g, patches);
      const T* weights = b.input<T>(1) + g * s.og * s.patch();
      multiply<T>(s.pixels(), s.og, s.patch(), {patches, s.patch(), 1}, {weights, 1, s.patch()},
                  panel, [&](int64_t i, int64_t j, double sum) {
                    y[i * s.o + g * s.og + j] = static_cast<T>(sum);
                  });
    }
  }
}

template <typename T>
void backward_data(const Shape& s, const Buffers& b) {
  double* panel = b.scratch<double>();
  double* dpatches = panel + panel_elements(s.og);
  double* dimage = dpatches + s.pixels() * s.patch();
  const int64_t image = s.h * s.w * s.c;
  for (int64_t n = 0; n < s.n; ++n) {
    const T* dy = b.input<T>(0) + n * s.pixels() * s.o;
    std::fill_n(dimage, image, 0.0);
    for (int64_t g = 0; g < s.groups; ++g) {
      const T* weights = b.input<T>(1) + g * s.og * s.patch();
      multiply<T>(s.pixels(), s.patch(), s.og, {dy + g * s.og, s.o, 1}, {weights, s.patch(), 1},
                  panel,
                  [&](int64_t i, int64_t j, double sum) { dpatches[i * s.patch() + j] = sum; });
      for_each_run(s, g, [&](int64_t target, int64_t offset) {
        if (target < 0) return;
        for (int64_t c = 0; c < s.cg; ++c) dimage[target + c] += dpatches[offset + c];
      });
    }
    T* dx = b.output<T>(0) + n * image;
    for (int64_t i = 0; i < image; ++i) dx[i] = static_cast<T>(dimage[i]);
  }
}

template <typename T>
void sum_of_rows(const T* rows, int64_t count, int64_t width, double* sums, T* result) {
  std::fill_n(sums, width, 0.0);
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < width; ++j) sums[j] += static_cast<double>(rows[i * width + j]);
  }
  for (int64_t j = 0; j < width; ++j) result[j] = static_cast<T>(sums[j]);
}

template <typename T>
void backward_weights(const Shape& s, const Buffers& b, bool with_bias) {
  double* panel = b.scratch<double>();
  double* sums = panel + panel_elements(s.pixels());
  double* bias_sums = sums + s.o * s.patch();
  T* patches = reinterpret_cast<T*>(bias_sums + s.o);
  std::fill_n(sums, s.o * s.patch(), 0.0);
  for (int64_t n = 0; n < s.n; ++n) {
    const T* dy = b.input<T>(1) + n * s.pixels() * s.o;
    for (int64_t g = 0; g < s.groups; ++g) {
      gather_patches(s, b.input<T>(0) + n * s.h * s.w * s.c, g, patches);
      double* group_sums = sums + g * s.og * s.patch();
      multiply<T>(s.og, s.patch(), s.pixels(), {dy + g * s.og, 1, s.o}, {patches, s.patch(), 1},
                  panel,
                  [&](int64_t i, int64_t j, double sum) { group_sums[i * s.patch() + j] += sum; });
    }
  }
  T* dw = b.output<T>(0);
  for (int64_t i = 0; i < s.o * s.patch(); ++i) dw[i] = static_cast<T>(sums[i]);
  if (with_bias) {
    sum_of_rows(b.input<T>(1), s.n * s.pixels(), s.o, bias_sums, b.output<T>(1));
  }
}

}  // namespace

Kernel make_conv2d(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "x");
  expect_counts(op, 2, 1);
  const Shape s = read_shape(op, input_of_rank(op, 0, "x", 4), input_of_rank(op, 1, "w", 4));
  expect_input(op, 1, "w", dtype, weight_dims(s));
  expect_output(op, 0, "y", dtype, result_dims(s));
  return for_floating(dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.workspace_bytes =
        panel_elements(s.patch()) * sizeof(double) + s.pixels() * s.patch() * sizeof(T);
    kernel.run = [s](const Buffers& b) { forward<T>(s, b); };
    return kernel;
  });
}

Kernel make_conv2d_backward_data(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "dy");
  expect_counts(op, 2, 1);
  const Shape s = read_shape(op, output_of_rank(op, 0, "dx", 4), input_of_rank(op, 1, "w", 4));
  expect_input(op, 0, "dy", dtype, result_dims(s));
  expect_input(op, 1, "w", dtype, weight_dims(s));
  expect_output(op, 0, "dx", dtype, image_dims(s));
  return for_floating(dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.workspace_bytes =
        (panel_elements(s.og) + s.pixels() * s.patch() + s.h * s.w * s.c) * sizeof(double);
    kernel.run = [s](const Buffers& b) { backward_data<T>(s, b); };
    return kernel;
  });
}

Kernel make_conv2d_backward_weights(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "x");
  const bool with_bias = op.output_count() == 2;
  expect_counts(op, 2, with_bias ? 2 : 1);
  const Shape s = read_shape(op, input_of_rank(op, 0, "x", 4), output_of_rank(op, 0, "dw", 4));
  expect_input(op, 1, "dy", dtype, result_dims(s));
  expect_output(op, 0, "dw", dtype, weight_dims(s));
  if (with_bias) expect_output(op, 1, "db", dtype, {s.o});
  return for_floating(dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.workspace_bytes = (panel_elements(s.pixels()) + s.o * s.patch() + s.o) * sizeof(double) +
                             s.pixels() * s.patch() * sizeof(T);
    kernel.run = [s, with_bias](const Buffers& b) { backward_weights<T>(s, b, with_bias); };
    return kernel;
  });
}

}  // namespace backends::reference
