// Computes a convolution with its pooling a few image rows at a time, and saves which element was
// chosen.
#include "backends/cpu/batch_blocked/pooled_convolution.h"

#include <algorithm>

#include "backends/cpu/parallel.h"

namespace backends::cpu::batch_blocked {

namespace {

bool has_padding(const ConvShape& s) {
  return s.pad_top > 0 || s.pad_left > 0 ||
         (s.p - 1) * s.stride_h + (s.kh - 1) * s.dilation_h >= s.h ||
         (s.q - 1) * s.stride_w + (s.kw - 1) * s.dilation_w >= s.w;
}

const PooledConv* best_pooled(const KernelTable& kernels, int64_t channels) {
  const auto padded = [&](const PooledConv& k) { return divide_up(channels, k.width) * k.width; };
  return std::min_element(
      kernels.pooled, kernels.pooled + kernels.pooled_count,
      [&](const PooledConv& a, const PooledConv& b) { return padded(a) < padded(b); });
}

// The taps of a pixel, from its first one.
std::vector<Run> runs_of(const ConvShape& s) {
  std::vector<Run> runs;
  const auto add = [&](int64_t row, int64_t column, int64_t taps) {
    runs.push_back({static_cast<int32_t>((row * s.dilation_h * s.w + column * s.dilation_w) * s.c),
                    static_cast<int32_t>((row * s.kw + column) * s.c),
                    static_cast<int32_t>(taps * s.c)});
  };
  for (int64_t row = 0; row < s.kh; ++row) {
    if (s.dilation_w == 1) {
      add(row, 0, s.kw);
    } else {
      for (int64_t column = 0; column < s.kw; ++column) add(row, column, 1);
    }
  }
  return runs;
}

}  // namespace

PooledConvolution::PooledConvolution(const PooledShape& shape, int threads,
                                     const KernelTable& kernels)
    : shape_(shape),
      threads_(std::max(1, threads)),
      kernels_(&kernels),
      strips_(shape),
      convolution_(shape.conv, Direction::kForward, threads, kernels, strips_.image_rows()) {
  if (!shape.has_windows_of_two() || has_padding(shape.conv)) return;
  in_registers_ = best_pooled(kernels, shape.conv.o);
  runs_ = runs_of(shape.conv);
}

double PooledConvolution::cycles() const {
  return convolution_.cycles() + (in_registers_ ? 0.0 : pooling_cycles(shape_, *kernels_));
}

int64_t PooledConvolution::packed_floats() const {
  const ConvShape& s = shape_.conv;
  const auto packed = static_cast<int64_t>(convolution_.workspace_bytes() / sizeof(float));
  const int64_t floats = in_registers_ ? divide_up(s.o, in_registers_->width) *
                                             in_registers_->width * s.kh * s.kw * s.c
                                       : packed;
  return round_up(floats, kBlock);
}

uint64_t PooledConvolution::workspace_bytes() const {
  const int64_t images = in_registers_ ? 0 : threads_ * strips_.image_floats();
  return static_cast<uint64_t>(packed_floats() + images) * sizeof(float);
}

void PooledConvolution::run_strip(const float* x, const PostOps& post, float* y, uint16_t* saved,
                                  void* workspace, float* image, int64_t strip) const {
  convolution_.run_strip(x, workspace, image, post, strip / strips_.per_block(),
                         strip % strips_.per_block());
  for (int64_t r = strips_.begin(strip); r < strips_.end(strip); ++r) {
    kernels_->pool_row(strips_.row(strip, r, image, y, saved));
  }
}

void PooledConvolution::run_row(const float* x, const float* bias, float* y, uint16_t* saved,
                                const float* packed, int64_t number) const {
  const ConvShape& s = shape_.conv;
  const int64_t block = number / shape_.rows(), r = number % shape_.rows();
  const int64_t width = in_registers_->width;
  PooledConvRow row{};
  row.x = x + (block * s.h + 2 * r * s.stride_h) * s.w * s.c * kBlock;
  row.runs = runs_.data();
  row.run_count = static_cast<int32_t>(runs_.size());
  row.pixel_step = static_cast<int32_t>(s.stride_w * s.c);
  row.row_step = static_cast<int32_t>(s.stride_h * s.w * s.c);
  for (int64_t channel = 0; channel < s.o; channel += width) {
    row.w = packed + channel * s.kh * s.kw * s.c;
    row.bias = bias + channel;
    row.channels = static_cast<int32_t>(std::min(width, s.o - channel));
    row.row = pooled_row(shape_, number, y, saved);
    row.row.pooled += channel * kBlock;
    if (saved) row.row.passes += channel * 4;
    in_registers_->kernel(row);
  }
}

void PooledConvolution::run(const float* x, const float* weights, const float* bias, float* y,
                            uint16_t* saved, void* workspace) const {
  const ConvShape& s = shape_.conv;
  auto* const packed = static_cast<float*>(workspace);
  PostOps post;
  post.ops[post.count++] = {Post::kBias, bias};
  if (shape_.relu) post.ops[post.count++] = {Post::kRelu, nullptr};
  const int64_t count = in_registers_ ? sample_blocks(s.n) * shape_.rows() : strips_.count();
  run_parts(threads_, [&](int part) {
    if (in_registers_) {
      const int64_t rows = divide_up(s.o, in_registers_->width) * s.kh * s.kw;
      pack_filters(s, Direction::kForward, in_registers_->width, weights, packed,
                   rows * part / threads_, rows * (part + 1) / threads_);
    } else {
      convolution_.pack(weights, workspace, part, threads_);
    }
  });
  parallel_parts(threads_, count, 1, 1, [&](int part, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (in_registers_) {
        run_row(x, bias, y, saved, packed, i);
      } else {
        run_strip(x, post, y, saved, workspace,
                  packed + packed_floats() + part * strips_.image_floats(), i);
      }
    }
  });
}

}  // namespace backends::cpu::batch_blocked
