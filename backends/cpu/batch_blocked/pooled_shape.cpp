// Cuts the image of a pooled convolution into strips that fit the second-level cache.
#include "backends/cpu/batch_blocked/pooled_shape.h"

#include <algorithm>

namespace backends::cpu::batch_blocked {

namespace {
// Bytes of the second-level cache that a strip of the image may take, beside what it is computed
// from.
constexpr int64_t kBytesOfPooledStrip = 192 * 1024;
}  // namespace

uint64_t PooledShape::saved_bytes() const {
  if (average && !relu) return 0;
  return static_cast<uint64_t>(sample_blocks(conv.n) * rows() * saved_row()) * sizeof(uint16_t);
}

PooledStrips::PooledStrips(const PooledShape& shape) : shape_(shape) {
  const int64_t bytes = shape.window_h * shape.conv.q * shape.conv.o * kBlock * 4;
  windows_ = std::clamp<int64_t>(kBytesOfPooledStrip / bytes, 1, shape.rows());
}

int64_t PooledStrips::end(int64_t strip) const {
  return std::min(begin(strip) + windows_, shape_.rows());
}

PooledRow PooledStrips::row(int64_t strip, int64_t r, float* image, float* pooled,
                            uint16_t* saved) const {
  const ConvShape& conv = shape_.conv;
  PooledRow row = pooled_row(shape_, strip / per_block() * shape_.rows() + r, pooled, saved);
  row.image = image + (r - begin(strip)) * shape_.window_h * conv.q * conv.o * kBlock;
  return row;
}

PooledRow pooled_row(const PooledShape& shape, int64_t number, float* pooled, uint16_t* saved) {
  PooledRow row{};
  row.pooled = pooled + number * shape.columns() * shape.conv.o * kBlock;
  row.passes = saved ? saved + number * shape.saved_row() : nullptr;
  row.window_h = static_cast<int32_t>(shape.window_h);
  row.window_w = static_cast<int32_t>(shape.window_w);
  row.width = static_cast<int32_t>(shape.conv.q);
  row.columns = static_cast<int32_t>(shape.columns());
  row.channels = static_cast<int32_t>(shape.conv.o);
  if (shape.average) row.factor = 1.0f / static_cast<float>(shape.window_h * shape.window_w);
  row.is_relu = shape.relu;
  return row;
}

// Each vector of the image is accessed, and the bits of its lanes are made or read.
double pooling_cycles(const PooledShape& shape, const KernelTable& kernels) {
  return 2.0 * static_cast<double>(shape.conv.p * shape.conv.q * shape.conv.o *
                                   sample_vectors(shape.conv.n, kernels));
}

}  // namespace backends::cpu::batch_blocked
