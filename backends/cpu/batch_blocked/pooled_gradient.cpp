// Spreads the pooled gradient over rows of the image and multiplies them at once by x, for dw and
// db.
#include "backends/cpu/batch_blocked/pooled_gradient.h"

#include <algorithm>

#include "backends/cpu/parallel.h"

namespace backends::cpu::batch_blocked {

PooledGradient::PooledGradient(const PooledShape& shape, int threads, const KernelTable& kernels)
    : shape_(shape),
      threads_(std::max(1, threads)),
      kernels_(&kernels),
      strips_(shape),
      gradient_(shape.conv, threads, kernels) {}

double PooledGradient::cycles() const {
  return gradient_.cycles() + (keeps_in_registers() ? 0.0 : pooling_cycles(shape_, *kernels_));
}

int64_t PooledGradient::weights() const {
  return shape_.conv.o * shape_.conv.kh * shape_.conv.kw * shape_.conv.c;
}

bool PooledGradient::keeps_in_registers() const {
  return shape_.has_windows_of_two() && shape_.saved_bytes() > 0 && gradient_.takes_windows();
}

int64_t PooledGradient::ranges_per_block() const {
  constexpr int64_t kPerThread =
      4;  // so that the largest share of a thread is little above the mean
  const int64_t blocks = sample_blocks(shape_.conv.n);
  return std::clamp<int64_t>(divide_up(kPerThread * threads_, blocks), 1, shape_.rows());
}

int64_t PooledGradient::image_floats() const {
  return keeps_in_registers() ? 0 : strips_.image_floats();
}

int64_t PooledGradient::thread_floats() const {
  return image_floats() + gradient_.sums_floats() + round_up(weights() + shape_.conv.o, kBlock);
}

uint64_t PooledGradient::workspace_bytes() const {
  return static_cast<uint64_t>(threads_ * thread_floats()) * sizeof(float);
}

void PooledGradient::add_strip(const float* x, float* dy, uint16_t* saved, float* image,
                               float* sums, int64_t strip) const {
  for (int64_t r = strips_.begin(strip); r < strips_.end(strip); ++r) {
    kernels_->unpool_row(strips_.row(strip, r, image, dy, saved));
  }
  gradient_.add_rows(x, image, strip / strips_.per_block(), strips_.begin(strip) * shape_.window_h,
                     strips_.end(strip) * shape_.window_h, sums);
}

void PooledGradient::run(const float* x, const float* dy, const uint16_t* saved, float* dw,
                         float* db, void* workspace) const {
  auto* const all = static_cast<float*>(workspace);
  const int64_t of_result = image_floats() + gradient_.sums_floats();
  // unpool_row() only reads these two.
  auto* const pooled = const_cast<float*>(dy);
  auto* const passes = const_cast<uint16_t*>(saved);
  const bool in_registers = keeps_in_registers();
  const int64_t ranges = in_registers ? ranges_per_block() : strips_.per_block();
  const int64_t count = sample_blocks(shape_.conv.n) * ranges;
  const float factor = in_registers && shape_.average ? 0.25f : 1.0f;
  run_parts(threads_, [&](int part) {
    float* const image = all + part * thread_floats();
    float* const sums = image + image_floats();
    float* const result = image + of_result;
    std::fill(sums, result, 0.0f);
    for (int64_t i = count * part / threads_; i < count * (part + 1) / threads_; ++i) {
      if (in_registers) {
        const int64_t range = i % ranges;
        gradient_.add_windows(x, dy, saved, i / ranges, shape_.rows() * range / ranges,
                              shape_.rows() * (range + 1) / ranges, sums);
      } else {
        add_strip(x, pooled, passes, image, sums, i);
      }
    }
    gradient_.write_sums(sums, result, result + weights());
  });
  parallel_for(threads_, weights() + shape_.conv.o, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float sum = 0;
      for (int64_t p = 0; p < threads_; ++p) sum += all[p * thread_floats() + of_result + i];
      (i < weights() ? dw[i] : db[i - weights()]) = sum * factor;
    }
  });
}

}  // namespace backends::cpu::batch_blocked
