#include "backends/cpu/kernels/norm.h"

#include <algorithm>
#include <cmath>

#include "backends/cpu/kernels/math.h"
#include "backends/cpu/parallel.h"

namespace backends::cpu::kernels {
namespace {

// Channels whose accumulators are kept in local arrays at a time.
constexpr int64_t kTile = 64;

}  // namespace

CPU_KERNEL void add_statistics(const float* x, const int64_t* rows, int64_t row_pixels,
                               int64_t first, int64_t pixels, int64_t channels, int64_t before,
                               double* mean, double* squares) {
  const auto count = static_cast<double>(pixels);
  const double total = count + static_cast<double>(before);
  const int64_t last = first + pixels, first_row = first / row_pixels;
  for (int64_t c = 0; c < channels; c += kTile) {
    const int64_t width = std::min(kTile, channels - c);
    float sum[kTile] = {}, center[kTile], square[kTile] = {};
    for (int64_t at = first, row = first_row; at < last; ++row) {
      const float* pixel = x + ((rows[row] - row) * row_pixels + at) * channels + c;
      for (const int64_t end = std::min(last, (row + 1) * row_pixels); at < end; ++at) {
        for (int64_t i = 0; i < width; ++i) sum[i] += pixel[i];
        pixel += channels;
      }
    }
    const float inverse = 1.0f / static_cast<float>(pixels);
    for (int64_t i = 0; i < width; ++i) center[i] = sum[i] * inverse;
    for (int64_t at = first, row = first_row; at < last; ++row) {
      const float* pixel = x + ((rows[row] - row) * row_pixels + at) * channels + c;
      for (const int64_t end = std::min(last, (row + 1) * row_pixels); at < end; ++at) {
        for (int64_t i = 0; i < width; ++i) {
          const float d = pixel[i] - center[i];
          square[i] += d * d;
        }
        pixel += channels;
      }
    }
    for (int64_t i = 0; i < width; ++i) {
      const double delta = static_cast<double>(center[i]) - mean[c + i];
      mean[c + i] += delta * count / total;
      squares[c + i] += square[i] + delta * delta * (total - count) * count / total;
    }
  }
}

CPU_KERNEL void merge_statistics(const double* part, double count, int64_t channels, double before,
                                 double* total) {
  if (before == 0) {
    std::copy_n(part, 2 * channels, total);
    return;
  }
  const double share = count / (before + count);
  const double* squares = part + channels;
  double* total_squares = total + channels;
  for (int64_t c = 0; c < channels; ++c) {
    const double delta = part[c] - total[c];
    total[c] += delta * share;
    total_squares[c] += squares[c] + delta * delta * before * share;
  }
}

CPU_KERNEL void normalise(const float* x, int64_t stride, int64_t pixels, int64_t channels,
                          const float* mean, const float* factor, const float* shift, float* y) {
  for (int64_t p = 0; p < pixels; ++p, x += stride, y += stride) {
    for (int64_t i = 0; i < channels; ++i) y[i] = (x[i] - mean[i]) * factor[i] + shift[i];
  }
}

CPU_KERNEL void add_gradient_sums(const float* dy, const float* x, int64_t stride, int64_t pixels,
                                  int64_t channels, const float* mean, double* sum,
                                  double* product) {
  for (int64_t c = 0; c < channels; c += kTile) {
    const int64_t width = std::min(kTile, channels - c);
    float plain[kTile] = {}, weighted[kTile] = {};
    for (int64_t p = 0; p < pixels; ++p) {
      const int64_t at = p * stride + c;
      for (int64_t i = 0; i < width; ++i) {
        plain[i] += dy[at + i];
        weighted[i] += dy[at + i] * (x[at + i] - mean[c + i]);
      }
    }
    for (int64_t i = 0; i < width; ++i) {
      sum[c + i] += plain[i];
      product[c + i] += weighted[i];
    }
  }
}

CPU_KERNEL void normalise_backward(const float* dy, const float* x, int64_t stride, int64_t pixels,
                                   int64_t channels, const float* mean, const float* factor,
                                   const float* offset, const float* slope, float* dx) {
  for (int64_t p = 0; p < pixels; ++p, dy += stride, x += stride, dx += stride) {
    for (int64_t i = 0; i < channels; ++i) {
      dx[i] = factor[i] * (dy[i] - offset[i] - (x[i] - mean[i]) * slope[i]);
    }
  }
}

CPU_KERNEL void layer_norm_rows(const float* x, const float* gamma, const float* beta,
                                float epsilon, float* y, float* saved, int64_t rows,
                                int64_t columns) {
  const float inverse = 1.0f / static_cast<float>(columns);
  for (int64_t r = 0; r < rows; ++r, x += columns, y += columns) {
    float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < columns; ++i) sum += x[i];
    const float mean = sum * inverse;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < columns; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const float scale = 1.0f / std::sqrt(squares * inverse + epsilon);
    for (int64_t i = 0; i < columns; ++i) y[i] = (x[i] - mean) * scale * gamma[i] + beta[i];
    saved[2 * r] = mean;
    saved[2 * r + 1] = scale;
  }
}

CPU_KERNEL void layer_norm_backward_rows(const float* dy, const float* x, const float* gamma,
                                         const float* saved, float* dx, double* sums, int64_t rows,
                                         int64_t columns) {
  const float inverse = 1.0f / static_cast<float>(columns);
  for (int64_t r = 0; r < rows; ++r, dy += columns, x += columns, dx += columns) {
    const float mean = saved[2 * r], scale = saved[2 * r + 1];
    float plain = 0, weighted = 0;
#pragma omp simd reduction(+ : plain, weighted)
    for (int64_t i = 0; i < columns; ++i) {
      plain += dy[i] * gamma[i];
      weighted += dy[i] * gamma[i] * ((x[i] - mean) * scale);
    }
    plain *= inverse, weighted *= inverse;
    double *dgamma = sums, *dbeta = sums + columns;
    for (int64_t i = 0; i < columns; ++i) {
      const float normal = (x[i] - mean) * scale, gradient = dy[i];
      dgamma[i] += gradient * normal;
      dbeta[i] += gradient;
      dx[i] = scale * (gradient * gamma[i] - plain - normal * weighted);
    }
  }
}

}  // namespace backends::cpu::kernels
