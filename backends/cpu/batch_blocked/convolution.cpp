// Runs the forward pass and the data gradient of a convolution strip by strip, over register tiles
// of pixels.
#include "backends/cpu/batch_blocked/convolution.h"

#include <algorithm>

#include "backends/cpu/parallel.h"

namespace backends::cpu::batch_blocked {

namespace {
// Bytes of the second-level cache (1 MiB on Zen 4, 1 to 2 MiB on Intel servers) that the input rows
// of a strip may take while all channel tiles process them, before the next strip begins.
constexpr int64_t kBytesOfStrip = 384 * 1024;
}  // namespace

const ConvKernel& best_width(const KernelTable& kernels, int64_t channels) {
  const auto padded = [&](const ConvKernel& k) {
    return (channels + k.width - 1) / k.width * k.width;
  };
  const ConvKernel* best = &kernels.conv[0];
  for (int32_t i = 1; i < kernels.conv_count; ++i) {
    if (padded(kernels.conv[i]) < padded(*best)) best = &kernels.conv[i];
  }
  return *best;
}

void pack_filters(const ConvShape& shape, Direction direction, int64_t width, const float* weights,
                  float* packed, int64_t begin, int64_t end) {
  const Images images(shape, direction);
  const bool forward = direction == Direction::kForward;
  const int64_t taps = shape.kh * shape.kw;
  const int64_t out_step = forward ? taps * shape.c : 1;
  const int64_t in_step = forward ? 1 : taps * shape.c;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t channel = row / taps * width, tap = row % taps;
    const float* from = weights + (forward ? tap : taps - 1 - tap) * shape.c + channel * out_step;
    float* to = packed + row * images.in_channels * width;
    const int64_t valid = std::min(width, images.out_channels - channel);
    for (int64_t i = 0; i < images.in_channels; ++i, to += width) {
      for (int64_t t = 0; t < width; ++t)
        to[t] = t < valid ? from[t * out_step + i * in_step] : 0.0f;
    }
  }
}

Convolution::Convolution(const ConvShape& shape, Direction direction, int threads,
                         const KernelTable& kernels, int64_t strip_rows)
    : shape_(shape),
      kernels_(&kernels),
      direction_(direction),
      threads_(std::max(1, threads)),
      images_(shape, direction),
      kernel_(&best_width(kernels, images_.out_channels)),
      channel_tiles_((images_.out_channels + kernel_->width - 1) / kernel_->width),
      strip_rows_(strip_rows > 0
                      ? strip_rows
                      : images_.rows_that_fit(kBytesOfStrip,
                                              images_.in_width * images_.in_channels * kBlock * 4,
                                              shape.kh)),
      geometry_(shape, direction,
                {images_.in_channels, images_.out_channels, kernel_->max_pixels, strip_rows_}) {
  const int64_t units = sample_blocks(shape.n) * strip_count();
  if (units % threads_ != 0 && units < 8 * threads_) channel_splits_ = channel_tiles_;
}

double Convolution::cycles() const {
  double sum = 0;
  for (const PixelTile& tile : geometry_.tiles) {
    const double pixels = tile.count, width = kernel_->width;
    // Nominal costs: one load per input vector and half a load per broadcast. A product has a
    // latency of 4 cycles.
    const double step = std::max({pixels * width, pixels + 0.5 * width, 4.0});
    double length = 0;
    for (int32_t i = 0; i < tile.run_count; ++i)
      length += geometry_.runs[tile.first_run + i].length;
    sum += length * step + 8.0 * tile.run_count + 2 * pixels * width + 30;
  }
  const auto weights = static_cast<double>(shape_.o * shape_.kh * shape_.kw * shape_.c);
  return sum * static_cast<double>(channel_tiles_ * sample_vectors(shape_.n, *kernels_)) +
         2 * weights;  // packing
}

uint64_t Convolution::workspace_bytes() const {
  return static_cast<uint64_t>(channel_tiles_ * kernel_->width * shape_.kh * shape_.kw *
                               images_.in_channels) *
         sizeof(float);
}

void Convolution::pack(const float* weights, void* workspace, int64_t part, int64_t parts) const {
  const int64_t rows = channel_tiles_ * shape_.kh * shape_.kw;
  pack_filters(shape_, direction_, kernel_->width, weights, static_cast<float*>(workspace),
               rows * part / parts, rows * (part + 1) / parts);
}

void Convolution::run_tiles(const float* in, const float* packed, float* out, int64_t offset,
                            const PostOps& post, int64_t block, const Strip& strip, int64_t begin,
                            int64_t end) const {
  const int64_t w_tile = shape_.kh * shape_.kw * images_.in_channels * kernel_->width;
  ConvTile tile{};
  tile.x = in + (block * images_.in_pixels() + strip.row_begin * images_.in_width) *
                    images_.in_channels * kBlock;
  tile.runs = geometry_.runs.data();
  tile.post = &post;
  for (int64_t t = begin; t < end; ++t) {
    tile.channel = static_cast<int32_t>(t * kernel_->width);
    tile.channels = static_cast<int32_t>(
        std::min<int64_t>(kernel_->width, images_.out_channels - tile.channel));
    tile.y_offset = offset + static_cast<int64_t>(tile.channel) * kBlock;
    tile.y = out + static_cast<int64_t>(tile.channel) * kBlock;
    tile.w = packed + t * w_tile;
    for (int32_t i = strip.tile_begin; i < strip.tile_end; ++i) {
      tile.pixels = &geometry_.tiles[i];
      kernel_->kernels[tile.pixels->count - 1](tile);
    }
  }
}

void Convolution::run_strip(const float* in, const void* workspace, float* rows,
                            const PostOps& post, int64_t block, int64_t strip) const {
  const int64_t row = images_.out_width * images_.out_channels * kBlock;
  run_tiles(in, static_cast<const float*>(workspace), rows - strip * strip_rows_ * row, 0, post,
            block, geometry_.strips[strip], 0, channel_tiles_);
}

void Convolution::run_unit(const float* in, const float* packed, float* out, const PostOps& post,
                           int64_t unit) const {
  const int64_t split = unit % channel_splits_;
  const Strip& strip = geometry_.strips[unit / channel_splits_ % strip_count()];
  const int64_t block = unit / channel_splits_ / strip_count();
  const int64_t y_block = block * images_.out_pixels() * images_.out_channels * kBlock;
  run_tiles(in, packed, out + y_block, y_block, post, block, strip,
            channel_tiles_ * split / channel_splits_,
            channel_tiles_ * (split + 1) / channel_splits_);
}

void Convolution::run(const float* in, const float* weights, float* out, void* workspace,
                      const PostOps& post) const {
  const auto* packed = static_cast<const float*>(workspace);
  const int64_t units = sample_blocks(shape_.n) * strip_count() * channel_splits_;
  run_parts(threads_, [&](int part) { pack(weights, workspace, part, threads_); });
  parallel_units(threads_, units, [&](int64_t unit) { run_unit(in, packed, out, post, unit); });
}

}  // namespace backends::cpu::batch_blocked
