// conv2d and its two gradients, as matrix products over patches. Row (p, q) of the patches of one
// image and one group holds the KH*KW*(C/G) elements that output pixel (p, q) reads, with zeros for
// padding. With the weights of the group as a matrix [O/G, KH*KW*C/G]:
//   y = patches w^T,   dpatches = dy w (scattered back to dx),   dw = dy^T patches.
#include "rt/sdk/convolution.h"

#include <algorithm>

#include "backends/reference/check.h"
#include "backends/reference/families.h"
#include "backends/reference/product.h"

namespace backends::reference {
namespace {

using rt::sdk::ConvolutionShape;

// Calls body(offset of the run in the image, or -1 for padding; offset in the patches) for every
// run of cg channels of one image and group. Offsets are in elements.
template <typename Body>
void for_each_run(const ConvolutionShape& s, int64_t group, Body&& body) {
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
void gather_patches(const ConvolutionShape& s, const T* image, int64_t group, T* patches) {
  for_each_run(s, group, [&](int64_t source, int64_t offset) {
    if (source < 0) {
      std::fill_n(patches + offset, s.cg, T(0));
    } else {
      std::copy_n(image + source, s.cg, patches + offset);
    }
  });
}

template <typename T>
void forward(const ConvolutionShape& s, const Buffers& b) {
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
void backward_data(const ConvolutionShape& s, const Buffers& b) {
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
void backward_weights(const ConvolutionShape& s, const Buffers& b, bool with_bias) {
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
  const ConvolutionShape s = rt::sdk::conv2d_shape(op, dtype);
  return floating_kernel(dtype,
                         {.workspace_bytes = panel_elements(s.patch()) * sizeof(double) +
                                             s.pixels() * s.patch() * rt::sdk::dtype_bytes(dtype)},
                         [s]<typename T>(const Buffers& b) { forward<T>(s, b); });
}

Kernel make_conv2d_backward_data(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "dy");
  const ConvolutionShape s = rt::sdk::conv2d_backward_data_shape(op, dtype);
  return floating_kernel(
      dtype,
      {.workspace_bytes =
           (panel_elements(s.og) + s.pixels() * s.patch() + s.h * s.w * s.c) * sizeof(double)},
      [s]<typename T>(const Buffers& b) { backward_data<T>(s, b); });
}

Kernel make_conv2d_backward_weights(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "x");
  const bool with_bias = op.output_count() == 2;
  const ConvolutionShape s = rt::sdk::conv2d_backward_weights_shape(op, dtype);
  return floating_kernel(
      dtype,
      {.workspace_bytes = (panel_elements(s.pixels()) + s.o * s.patch() + s.o) * sizeof(double) +
                          s.pixels() * s.patch() * rt::sdk::dtype_bytes(dtype)},
      [s, with_bias]<typename T>(const Buffers& b) { backward_weights<T>(s, b, with_bias); });
}

}  // namespace backends::reference
