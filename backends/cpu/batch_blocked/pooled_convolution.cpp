#include "backends/cpu/batch_blocked/pooled_convolution.h"

#include <omp.h>

#include <algorithm>

namespace backends::cpu::batch_blocked {

namespace {

// Bytes of the second-level cache that a strip of the image may take, beside what it is computed
// from.
constexpr int64_t kStripBytes = 192 * 1024;

int64_t round_up(int64_t floats) { return (floats + kBlock - 1) / kBlock * kBlock; }

// Cycles of a pooling or its adjoint in the cache: an access to each vector of the image, and the
// bits of its lanes.
double pooling_cycles(const PooledShape& s, const KernelTable& kernels) {
  return 2.0 *
         static_cast<double>(s.conv.p * s.conv.q * s.conv.o * sample_vectors(s.conv.n, kernels));
}

int64_t saved_row(const PooledShape& s) { return s.columns() * s.conv.o * s.window_h * s.window_w; }

}  // namespace

uint64_t PooledShape::saved_bytes() const {
  if (average && !relu) return 0;
  return static_cast<uint64_t>(sample_blocks(conv.n) * rows() * saved_row(*this)) *
         sizeof(uint16_t);
}

PooledStrips::PooledStrips(const PooledShape& shape) : shape_(shape) {
  const int64_t bytes = shape.window_h * shape.conv.q * shape.conv.o * kBlock * 4;
  windows_ = std::clamp<int64_t>(kStripBytes / bytes, 1, shape.rows());
}

int64_t PooledStrips::end(int64_t strip) const {
  return std::min(begin(strip) + windows_, shape_.rows());
}

PooledRow PooledStrips::row(int64_t strip, int64_t r, float* image, float* pooled,
                            uint16_t* saved) const {
  const ConvShape& conv = shape_.conv;
  const int64_t number = strip / per_block() * shape_.rows() + r;
  PooledRow row{};
  row.image = image + (r - begin(strip)) * shape_.window_h * conv.q * conv.o * kBlock;
  row.pooled = pooled + number * shape_.columns() * conv.o * kBlock;
  row.passes = saved ? saved + number * saved_row(shape_) : nullptr;
  row.window_h = static_cast<int32_t>(shape_.window_h);
  row.window_w = static_cast<int32_t>(shape_.window_w);
  row.width = static_cast<int32_t>(conv.q);
  row.columns = static_cast<int32_t>(shape_.columns());
  row.channels = static_cast<int32_t>(conv.o);
  if (shape_.average) row.factor = 1.0f / static_cast<float>(shape_.window_h * shape_.window_w);
  row.is_relu = shape_.relu;
  return row;
}

PooledConvolution::PooledConvolution(const PooledShape& shape, int threads,
                                     const KernelTable& kernels)
    : shape_(shape),
      threads_(std::max(1, threads)),
      kernels_(&kernels),
      strips_(shape),
      convolution_(shape.conv, Direction::kForward, threads, kernels, strips_.image_rows()) {}

double PooledConvolution::cycles() const {
  return convolution_.cycles() + pooling_cycles(shape_, *kernels_);
}

uint64_t PooledConvolution::workspace_bytes() const {
  const auto packed = static_cast<int64_t>(convolution_.workspace_bytes() / sizeof(float));
  return static_cast<uint64_t>(round_up(packed) + threads_ * strips_.image_floats()) *
         sizeof(float);
}

void PooledConvolution::run(const float* x, const float* weights, const float* bias, float* y,
                            uint16_t* saved, void* workspace) const {
  const auto packed = static_cast<int64_t>(convolution_.workspace_bytes() / sizeof(float));
  float* const images = static_cast<float*>(workspace) + round_up(packed);
  PostOps post;
  post.ops[post.count++] = {Post::kBias, bias};
  if (shape_.relu) post.ops[post.count++] = {Post::kRelu, nullptr};
#pragma omp parallel num_threads(threads_)
  {
    const int64_t part = omp_get_thread_num(), parts = omp_get_num_threads();
    convolution_.pack(weights, workspace, part, parts);
    float* const image = images + part * strips_.image_floats();
#pragma omp barrier
    const int64_t count = strips_.count();
    for (int64_t i = count * part / parts; i < count * (part + 1) / parts; ++i) {
      convolution_.run_strip(x, workspace, image, post, i / strips_.per_block(),
                             i % strips_.per_block());
      for (int64_t r = strips_.begin(i); r < strips_.end(i); ++r) {
        kernels_->pool_row(strips_.row(i, r, image, y, saved));
      }
    }
  }
}

PooledGradient::PooledGradient(const PooledShape& shape, int threads, const KernelTable& kernels)
    : shape_(shape),
      threads_(std::max(1, threads)),
      kernels_(&kernels),
      strips_(shape),
      gradient_(shape.conv, threads, kernels) {}

double PooledGradient::cycles() const {
  return gradient_.cycles() + pooling_cycles(shape_, *kernels_);
}

int64_t PooledGradient::weights() const {
  return shape_.conv.o * shape_.conv.kh * shape_.conv.kw * shape_.conv.c;
}

int64_t PooledGradient::thread_floats() const {
  return strips_.image_floats() + gradient_.sums_floats() + round_up(weights() + shape_.conv.o);
}

uint64_t PooledGradient::workspace_bytes() const {
  return static_cast<uint64_t>(threads_ * thread_floats()) * sizeof(float);
}

void PooledGradient::run(const float* x, const float* dy, const uint16_t* saved, float* dw,
                         float* db, void* workspace) const {
  auto* const all = static_cast<float*>(workspace);
  const int64_t of_result = strips_.image_floats() + gradient_.sums_floats();
  // unpool_row() only reads these two.
  auto* const pooled = const_cast<float*>(dy);
  auto* const passes = const_cast<uint16_t*>(saved);
#pragma omp parallel num_threads(threads_)
  {
    const int64_t part = omp_get_thread_num(), parts = omp_get_num_threads();
    float* const image = all + part * thread_floats();
    float* const sums = image + strips_.image_floats();
    float* const result = image + of_result;
    std::fill(sums, result, 0.0f);
    const int64_t count = strips_.count();
    for (int64_t i = count * part / parts; i < count * (part + 1) / parts; ++i) {
      for (int64_t r = strips_.begin(i); r < strips_.end(i); ++r) {
        kernels_->unpool_row(strips_.row(i, r, image, pooled, passes));
      }
      gradient_.add_rows(x, image, i / strips_.per_block(), strips_.begin(i) * shape_.window_h,
                         strips_.end(i) * shape_.window_h, sums);
    }
    gradient_.write_sums(sums, result, result + weights());
#pragma omp barrier
    const int64_t results = weights() + shape_.conv.o;
    for (int64_t i = results * part / parts; i < results * (part + 1) / parts; ++i) {
      float sum = 0;
      for (int64_t p = 0; p < parts; ++p) sum += all[p * thread_floats() + of_result + i];
      (i < weights() ? dw[i] : db[i - weights()]) = sum;
    }
  }
}

}  // namespace backends::cpu::batch_blocked
