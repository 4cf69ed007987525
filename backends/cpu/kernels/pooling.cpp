#include "backends/cpu/kernels/pooling.h"

#include <algorithm>
#include <limits>

#include "backends/cpu/kernels/math.h"
#include "backends/cpu/parallel.h"

namespace backends::cpu::kernels {
namespace {

struct Range {
  int64_t begin, end;
};

// Input positions of output `index`, clipped to the image.
CPU_INLINE Range covered(int64_t index, int64_t stride, int64_t pad, int64_t kernel,
                         int64_t length) {
  const int64_t first = index * stride - pad;
  return {std::max<int64_t>(first, 0), std::min(first + kernel, length)};
}

// Outputs whose window covers input `index`.
CPU_INLINE Range covering(int64_t index, int64_t stride, int64_t pad, int64_t kernel,
                          int64_t outputs) {
  const int64_t low = index + pad - kernel + 1;
  return {low <= 0 ? 0 : (low + stride - 1) / stride,
          std::min(outputs, (index + pad) / stride + 1)};
}

CPU_INLINE float divisor(const PoolShape& s, Range rows, Range columns) {
  const int64_t count = s.include_padding ? s.window.kernel_h * s.window.kernel_w
                                          : (rows.end - rows.begin) * (columns.end - columns.begin);
  return 1.0f / static_cast<float>(std::max<int64_t>(count, 1));
}

// The common 2x2 window without padding needs no accumulator in memory.
CPU_INLINE void avg_2x2(const float* x, int64_t stride, int64_t below, float* y, int64_t channels) {
  const float *a = x, *b = x + stride, *c = x + below, *d = x + below + stride;
  for (int64_t i = 0; i < channels; ++i) y[i] = 0.25f * ((a[i] + b[i]) + (c[i] + d[i]));
}

template <typename Index>
CPU_INLINE void max_row(const PoolShape& s, Pixels<const float> x, int64_t row, Pixels<float> y,
                        Pixels<Index> winner, int64_t channels) {
  const Window& w = s.window;
  const Range rows = covered(row, w.stride_h, w.pad_top, w.kernel_h, s.h);
  for (int64_t q = 0; q < s.q; ++q) {
    const Range columns = covered(q, w.stride_w, w.pad_left, w.kernel_w, s.w);
    float* best = y.data + q * y.stride;
    Index* who = winner.data + q * winner.stride;
    bool first = true;
    for (int64_t h = rows.begin; h < rows.end; ++h) {
      for (int64_t c = columns.begin; c < columns.end; ++c) {
        const float* value = x.data + (h * s.w + c) * x.stride;
        const auto position = static_cast<Index>((h - row * w.stride_h + w.pad_top) * w.kernel_w +
                                                 (c - q * w.stride_w + w.pad_left));
        if (first) {
          for (int64_t i = 0; i < channels; ++i) best[i] = value[i], who[i] = position;
          first = false;
        } else {
          for (int64_t i = 0; i < channels; ++i) {
            const bool wins = value[i] > best[i];
            best[i] = wins ? value[i] : best[i];
            who[i] = wins ? position : who[i];
          }
        }
      }
    }
  }
}

template <typename Index>
CPU_INLINE void max_backward_row(const PoolShape& s, Pixels<const float> dy,
                                 Pixels<const Index> winner, int64_t row, Pixels<float> dx,
                                 int64_t channels) {
  const Window& w = s.window;
  const Range rows = covering(row, w.stride_h, w.pad_top, w.kernel_h, s.p);
  for (int64_t column = 0; column < s.w; ++column) {
    const Range columns = covering(column, w.stride_w, w.pad_left, w.kernel_w, s.q);
    float* target = dx.data + column * dx.stride;
    for (int64_t i = 0; i < channels; ++i) target[i] = 0.0f;
    for (int64_t p = rows.begin; p < rows.end; ++p) {
      for (int64_t q = columns.begin; q < columns.end; ++q) {
        const float* gradient = dy.data + (p * s.q + q) * dy.stride;
        const Index* who = winner.data + (p * s.q + q) * winner.stride;
        const auto position = static_cast<Index>((row - p * w.stride_h + w.pad_top) * w.kernel_w +
                                                 (column - q * w.stride_w + w.pad_left));
        for (int64_t i = 0; i < channels; ++i) {
          target[i] += who[i] == position ? gradient[i] : 0.0f;
        }
      }
    }
  }
}

}  // namespace

CPU_KERNEL void avg_pool_row(const PoolShape& s, Pixels<const float> x, int64_t row,
                             Pixels<float> y, int64_t channels) {
  const Window& w = s.window;
  const bool simple = w.kernel_h == 2 && w.kernel_w == 2 && w.pad_top + w.pad_left == 0 &&
                      w.pad_bottom + w.pad_right == 0;
  const Range rows = covered(row, w.stride_h, w.pad_top, w.kernel_h, s.h);
  for (int64_t q = 0; q < s.q; ++q) {
    const Range columns = covered(q, w.stride_w, w.pad_left, w.kernel_w, s.w);
    float* target = y.data + q * y.stride;
    if (simple) {
      avg_2x2(x.data + (rows.begin * s.w + columns.begin) * x.stride, x.stride, s.w * x.stride,
              target, channels);
      continue;
    }
    for (int64_t i = 0; i < channels; ++i) target[i] = 0.0f;
    for (int64_t h = rows.begin; h < rows.end; ++h) {
      for (int64_t c = columns.begin; c < columns.end; ++c) {
        const float* value = x.data + (h * s.w + c) * x.stride;
        for (int64_t i = 0; i < channels; ++i) target[i] += value[i];
      }
    }
    const float factor = divisor(s, rows, columns);
    for (int64_t i = 0; i < channels; ++i) target[i] *= factor;
  }
}

CPU_KERNEL void max_pool_row(const PoolShape& s, Pixels<const float> x, int64_t row,
                             Pixels<float> y, Pixels<uint8_t> winner, int64_t channels) {
  max_row(s, x, row, y, winner, channels);
}

CPU_KERNEL void max_pool_row(const PoolShape& s, Pixels<const float> x, int64_t row,
                             Pixels<float> y, Pixels<int32_t> winner, int64_t channels) {
  max_row(s, x, row, y, winner, channels);
}

CPU_KERNEL void avg_pool_backward_row(const PoolShape& s, Pixels<const float> dy, int64_t row,
                                      Pixels<float> dx, int64_t channels) {
  const Window& w = s.window;
  const Range rows = covering(row, w.stride_h, w.pad_top, w.kernel_h, s.p);
  for (int64_t column = 0; column < s.w; ++column) {
    const Range columns = covering(column, w.stride_w, w.pad_left, w.kernel_w, s.q);
    float* target = dx.data + column * dx.stride;
    bool first = true;
    for (int64_t p = rows.begin; p < rows.end; ++p) {
      for (int64_t q = columns.begin; q < columns.end; ++q) {
        const float factor = divisor(s, covered(p, w.stride_h, w.pad_top, w.kernel_h, s.h),
                                     covered(q, w.stride_w, w.pad_left, w.kernel_w, s.w));
        const float* gradient = dy.data + (p * s.q + q) * dy.stride;
        if (first) {
          for (int64_t i = 0; i < channels; ++i) target[i] = factor * gradient[i];
        } else {
          for (int64_t i = 0; i < channels; ++i) target[i] += factor * gradient[i];
        }
        first = false;
      }
    }
    if (first) {
      for (int64_t i = 0; i < channels; ++i) target[i] = 0.0f;
    }
  }
}

CPU_KERNEL void max_pool_backward_row(const PoolShape& s, Pixels<const float> dy,
                                      Pixels<const uint8_t> winner, int64_t row, Pixels<float> dx,
                                      int64_t channels) {
  max_backward_row(s, dy, winner, row, dx, channels);
}

CPU_KERNEL void max_pool_backward_row(const PoolShape& s, Pixels<const float> dy,
                                      Pixels<const int32_t> winner, int64_t row, Pixels<float> dx,
                                      int64_t channels) {
  max_backward_row(s, dy, winner, row, dx, channels);
}

CPU_KERNEL void pixel_mean(Pixels<const float> x, int64_t count, float factor, float* y,
                           int64_t channels) {
  for (int64_t i = 0; i < channels; ++i) y[i] = 0.0f;
  for (int64_t pixel = 0; pixel < count; ++pixel) {
    const float* value = x.data + pixel * x.stride;
    for (int64_t i = 0; i < channels; ++i) y[i] += value[i];
  }
  for (int64_t i = 0; i < channels; ++i) y[i] *= factor;
}

CPU_KERNEL void pixel_spread(const float* x, float factor, Pixels<float> y, int64_t count,
                             int64_t channels) {
  for (int64_t pixel = 0; pixel < count; ++pixel) {
    float* target = y.data + pixel * y.stride;
    for (int64_t i = 0; i < channels; ++i) target[i] = factor * x[i];
  }
}

}  // namespace backends::cpu::kernels
