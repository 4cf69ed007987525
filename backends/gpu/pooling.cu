// max_pool2d, avg_pool2d, global_avg_pool and their gradients, for x [N,H,W,C] and y [N,P,Q,C].
// Gradients gather: the thread of a pixel of dx adds up the contributions of all windows that
// contain the pixel. So no two threads write to one element, and the result has the same bits every
// time.
#include "backends/gpu/post_ops.h"
#include "backends/gpu/rows.h"
#include "backends/reference/window.h"

namespace backends::gpu {
namespace {

struct PoolShape {
  int64_t n, h, w, c, p, q;
  int64_t kh, kw, stride_h, stride_w, pad_top, pad_left;
  bool max, count_include_pad;
  int64_t image() const { return n * h * w * c; }
  int64_t result() const { return n * p * q * c; }
};

PoolShape shape_of(const Operation& op, const rt_tensor_desc& x, const rt_tensor_desc& y) {
  const reference::Window window = reference::pooling_window(op);
  PoolShape s{};
  s.n = x.dims[0], s.h = x.dims[1], s.w = x.dims[2], s.c = x.dims[3], s.p = y.dims[1],
  s.q = y.dims[2];
  s.kh = window.kernel_h, s.kw = window.kernel_w, s.stride_h = window.stride_h,
  s.stride_w = window.stride_w;
  s.pad_top = window.pad_top, s.pad_left = window.pad_left;
  s.max = op.is(RT_OP_MAX_POOL2D) || op.is(RT_OP_MAX_POOL2D_BACKWARD);
  s.count_include_pad = op.integer(RT_ATTR_COUNT_INCLUDE_PAD, 1) != 0;
  return s;
}

// The rows and columns of a window that lie inside the image.
struct Inside {
  int64_t row_begin, row_end, column_begin, column_end;
  GPU_DEVICE static Inside of(const PoolShape& s, int64_t p, int64_t q) {
    const int64_t row = p * s.stride_h - s.pad_top, column = q * s.stride_w - s.pad_left;
    return {row > 0 ? row : 0, row + s.kh < s.h ? row + s.kh : s.h, column > 0 ? column : 0,
            column + s.kw < s.w ? column + s.kw : s.w};
  }
  GPU_DEVICE int64_t divisor(const PoolShape& s) const {
    return s.count_include_pad ? s.kh * s.kw : (row_end - row_begin) * (column_end - column_begin);
  }
};

// Max pooling saves the pixel of each winner, row * W + column, as int32 [N,P,Q,C].
template <typename T>
struct Pool {
  using C = Compute<T>;
  const T* x;
  T* y;
  int32_t* winners;
  PoolShape s;
  PostOps post;
  GPU_DEVICE void operator()(int64_t i) const {
    const int64_t c = i % s.c, q = i / s.c % s.q, p = i / s.c / s.q % s.p, n = i / s.c / s.q / s.p;
    const Inside in = Inside::of(s, p, q);
    const T* image = x + n * s.h * s.w * s.c + c;
    int64_t best = in.row_begin * s.w + in.column_begin;
    C sum = C(0);
    for (int64_t row = in.row_begin; row < in.row_end; ++row) {
      for (int64_t column = in.column_begin; column < in.column_end; ++column) {
        const int64_t pixel = row * s.w + column;
        const C value = static_cast<C>(image[pixel * s.c]);
        sum += value;
        if (value > static_cast<C>(image[best * s.c]) || value != value) best = pixel;
      }
    }
    if (s.max) winners[i] = static_cast<int32_t>(best);
    const C result =
        s.max ? static_cast<C>(image[best * s.c]) : sum / static_cast<C>(in.divisor(s));
    y[i] = static_cast<T>(post.apply<T>(result, i, c));
  }
};

template <typename T>
struct PoolBackward {
  using C = Compute<T>;
  const T* dy;
  const int32_t* winners;
  T* dx;
  PoolShape s;
  PostOps post;
  GPU_DEVICE void operator()(int64_t i) const {
    const int64_t c = i % s.c, column = i / s.c % s.w, row = i / s.c / s.w % s.h,
                  n = i / s.c / s.w / s.h;
    // The windows p for which p stride - pad <= row < p stride - pad + kernel.
    const int64_t top = row + s.pad_top - s.kh + 1, left = column + s.pad_left - s.kw + 1;
    const int64_t p0 = top <= 0 ? 0 : (top + s.stride_h - 1) / s.stride_h;
    const int64_t q0 = left <= 0 ? 0 : (left + s.stride_w - 1) / s.stride_w;
    C sum = C(0);
    for (int64_t p = p0; p < s.p && p * s.stride_h <= row + s.pad_top; ++p) {
      for (int64_t q = q0; q < s.q && q * s.stride_w <= column + s.pad_left; ++q) {
        const int64_t from = ((n * s.p + p) * s.q + q) * s.c + c;
        if (s.max) {
          if (winners[from] == row * s.w + column) sum += static_cast<C>(dy[from]);
        } else {
          sum += static_cast<C>(dy[from]) / static_cast<C>(Inside::of(s, p, q).divisor(s));
        }
      }
    }
    dx[i] = static_cast<T>(post.apply<T>(sum, i, c));
  }
};

Kernel make_pool(const Properties&, const Operation& op) {
  const PoolShape s = shape_of(op, op.input(0), op.output(0));
  const PostPlan post(op);
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    Kernel kernel;
    if (s.max) kernel.saved_bytes = static_cast<uint64_t>(s.result()) * sizeof(int32_t);
    kernel.run = [=](const Launch& l) {
      for_each(
          l, s.result(),
          Pool<T>{l.input<T>(0), l.output<T>(0), static_cast<int32_t*>(l.saved), s, post.bind(l)},
          "pool2d");
    };
    return kernel;
  });
}

Kernel make_pool_backward(const Properties&, const Operation& op) {
  const PoolShape s = shape_of(op, op.output(0), op.input(0));
  const PostPlan post(op);
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    Kernel kernel;
    if (s.max) kernel.reads_saved = static_cast<uint64_t>(s.result()) * sizeof(int32_t);
    kernel.run = [=](const Launch& l) {
      for_each(l, s.image(),
               PoolBackward<T>{l.input<T>(0), static_cast<const int32_t*>(l.saved), l.output<T>(0),
                               s, post.bind(l)},
               "pool2d_backward");
    };
    return kernel;
  });
}

template <typename T>
struct GlobalPool {
  using C = Compute<T>;
  const T* x;
  T* y;
  int64_t pixels, channels;
  PostOps post;
  GPU_DEVICE void operator()(int64_t i) const {
    const int64_t c = i % channels;
    const T* image = x + i / channels * pixels * channels + c;
    C sum = C(0);
    for (int64_t pixel = 0; pixel < pixels; ++pixel) sum += static_cast<C>(image[pixel * channels]);
    y[i] = static_cast<T>(post.apply<T>(sum / static_cast<C>(pixels), i, c));
  }
};

template <typename T>
struct GlobalPoolBackward {
  using C = Compute<T>;
  const T* dy;
  T* dx;
  int64_t pixels, channels;
  PostOps post;
  GPU_DEVICE void operator()(int64_t i) const {
    const int64_t c = i % channels, n = i / channels / pixels;
    const C mean = static_cast<C>(dy[n * channels + c]) / static_cast<C>(pixels);
    dx[i] = static_cast<T>(post.apply<T>(mean, i, c));
  }
};

Kernel make_global_pool(const Properties&, const Operation& op) {
  const bool backward = op.is(RT_OP_GLOBAL_AVG_POOL_BACKWARD);
  const rt_tensor_desc& image = backward ? op.output(0) : op.input(0);
  const int64_t n = image.dims[0], pixels = image.dims[1] * image.dims[2], channels = image.dims[3];
  const PostPlan post(op);
  return for_floating(image.dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.run = [=](const Launch& l) {
      if (backward) {
        for_each(
            l, n * pixels * channels,
            GlobalPoolBackward<T>{l.input<T>(0), l.output<T>(0), pixels, channels, post.bind(l)},
            "global_avg_pool_backward");
      } else {
        for_each(l, n * channels,
                 GlobalPool<T>{l.input<T>(0), l.output<T>(0), pixels, channels, post.bind(l)},
                 "global_avg_pool");
      }
    };
    return kernel;
  });
}

constexpr Entry kEntries[] = {
    {RT_OP_MAX_POOL2D, make_pool, true},
    {RT_OP_MAX_POOL2D_BACKWARD, make_pool_backward, true},
    {RT_OP_AVG_POOL2D, make_pool, true},
    {RT_OP_AVG_POOL2D_BACKWARD, make_pool_backward, true},
    {RT_OP_GLOBAL_AVG_POOL, make_global_pool, true},
    {RT_OP_GLOBAL_AVG_POOL_BACKWARD, make_global_pool, true},
};

}  // namespace

Family pooling_family() { return {kEntries, std::size(kEntries)}; }

}  // namespace backends::gpu
