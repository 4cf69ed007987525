#include "backends/cpu/batch_blocked/convolution.h"

#include <omp.h>

#include <algorithm>

namespace backends::cpu::batch_blocked {

namespace {
// Bytes of the second-level cache (1 MiB on Zen 4, 1 to 2 MiB on Intel servers) that the input rows
// of a strip may take while all channel tiles process them.
constexpr int64_t kStripBytes = 384 * 1024;
}  // namespace

// One dimension of the output: the taps that are inside the input, for each position.
struct Convolution::Axis {
  // One tap of the filter along this dimension.
  struct Tap {
    int32_t k;       // index in the packed filter
    int32_t offset;  // input position, counted from the position's base
    bool operator==(const Tap&) const = default;
  };
  std::vector<std::vector<Tap>> classes;
  std::vector<int32_t> class_of;  // of each output position
  std::vector<int32_t> base;      // input position of the first tap
};

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

Convolution::Convolution(const ConvShape& shape, Direction direction, int threads,
                         const KernelTable& kernels)
    : shape_(shape), kernels_(&kernels), direction_(direction), threads_(std::max(1, threads)) {
  const bool forward = direction == Direction::kForward;
  in_channels_ = forward ? shape.c : shape.o;
  out_channels_ = forward ? shape.o : shape.c;
  in_pixels_ = forward ? shape.h * shape.w : shape.p * shape.q;
  out_pixels_ = forward ? shape.p * shape.q : shape.h * shape.w;
  in_width_ = forward ? shape.w : shape.q;
  kernel_ = &best_width(kernels, out_channels_);
  channel_tiles_ = (out_channels_ + kernel_->width - 1) / kernel_->width;
  build_tiles(axis(forward ? shape.p : shape.h, forward ? shape.h : shape.p, shape.kh,
                   shape.stride_h, shape.pad_top, shape.dilation_h),
              axis(forward ? shape.q : shape.w, forward ? shape.w : shape.q, shape.kw,
                   shape.stride_w, shape.pad_left, shape.dilation_w));
  const int64_t units = sample_blocks(shape.n) * (static_cast<int64_t>(strips_.size()) - 1);
  if (units % threads_ != 0 && units < 8 * threads_) channel_splits_ = channel_tiles_;
}

Convolution::Axis Convolution::axis(int64_t out, int64_t in, int64_t k, int64_t stride, int64_t pad,
                                    int64_t dilation) const {
  Axis result;
  for (int64_t position = 0; position < out; ++position) {
    std::vector<Axis::Tap> taps;
    for (int64_t tap = 0; tap < k; ++tap) {
      // The filter is packed so that the input position grows with the tap, which means backwards
      // for the gradient.
      int64_t at = position * stride - pad + tap * dilation;
      if (direction_ == Direction::kBackwardData) {
        const int64_t distance = position + pad - (k - 1 - tap) * dilation;
        if (distance < 0 || distance % stride != 0) continue;
        at = distance / stride;
      }
      if (at < 0 || at >= in) continue;
      taps.push_back({static_cast<int32_t>(tap), static_cast<int32_t>(at)});
    }
    const int32_t base = taps.empty() ? 0 : taps.front().offset;
    for (Axis::Tap& tap : taps) tap.offset -= base;
    const auto found = std::find(result.classes.begin(), result.classes.end(), taps);
    result.class_of.push_back(static_cast<int32_t>(found - result.classes.begin()));
    result.base.push_back(base);
    if (found == result.classes.end()) result.classes.push_back(std::move(taps));
  }
  return result;
}

void Convolution::add_runs(const Axis& rows, int row_class, const Axis& columns, int column_class) {
  const auto channels = static_cast<int32_t>(in_channels_);
  for (const Axis::Tap& row : rows.classes[row_class]) {
    const Axis::Tap* previous = nullptr;
    for (const Axis::Tap& column : columns.classes[column_class]) {
      if (previous && column.k == previous->k + 1 && column.offset == previous->offset + 1) {
        runs_.back().length += channels;
      } else {
        const auto width = static_cast<int32_t>(in_width_);
        const auto kw = static_cast<int32_t>(shape_.kw);
        runs_.push_back({(row.offset * width + column.offset) * channels,
                         (row.k * kw + column.k) * channels, channels});
      }
      previous = &column;
    }
  }
}

// Divides the pixels (row, column) of one class into register tiles of nearly equal size.
void Convolution::add_tiles(const std::vector<std::pair<int64_t, int64_t>>& pixels,
                            int32_t first_run, int32_t run_count, const Axis& rows,
                            const Axis& columns) {
  const auto count = static_cast<int64_t>(pixels.size());
  const auto width = static_cast<int64_t>(columns.class_of.size());
  const int64_t parts = (count + kernel_->max_pixels - 1) / kernel_->max_pixels;
  for (int64_t part = 0; part < parts; ++part) {
    PixelTile tile{};
    tile.first_run = first_run;
    tile.run_count = run_count;
    for (int64_t i = count * part / parts; i < count * (part + 1) / parts; ++i) {
      const auto [r, c] = pixels[i];
      tile.x[tile.count] =
          static_cast<int32_t>((rows.base[r] * in_width_ + columns.base[c]) * in_channels_);
      tile.y[tile.count++] = static_cast<int32_t>((r * width + c) * out_channels_);
    }
    tiles_.push_back(tile);
  }
}

// The number of output rows in a strip: all channel tiles process its input before the next strip
// begins.
int64_t Convolution::strip_rows(int64_t height) const {
  const int64_t row_bytes = in_width_ * in_channels_ * kBlock * 4;
  const int64_t in_rows = std::max<int64_t>(1, kStripBytes / row_bytes - shape_.kh + 1);
  return std::clamp<int64_t>(in_rows * height / (in_pixels_ / in_width_), 1, height);
}

void Convolution::build_tiles(const Axis& rows, const Axis& columns) {
  const auto height = static_cast<int64_t>(rows.class_of.size());
  const auto width = static_cast<int64_t>(columns.class_of.size());
  std::vector<int32_t> first_run;
  for (size_t r = 0; r < rows.classes.size(); ++r) {
    for (size_t c = 0; c < columns.classes.size(); ++c) {
      first_run.push_back(static_cast<int32_t>(runs_.size()));
      add_runs(rows, static_cast<int>(r), columns, static_cast<int>(c));
    }
  }
  first_run.push_back(static_cast<int32_t>(runs_.size()));

  const int64_t strip = strip_rows(height);
  strips_.push_back(0);
  for (int64_t begin = 0; begin < height; begin += strip) {
    std::vector<std::vector<std::pair<int64_t, int64_t>>> pixels(first_run.size() - 1);
    for (int64_t r = begin; r < std::min(height, begin + strip); ++r) {
      for (int64_t c = 0; c < width; ++c) {
        pixels[rows.class_of[r] * columns.classes.size() + columns.class_of[c]].emplace_back(r, c);
      }
    }
    for (size_t key = 0; key < pixels.size(); ++key) {
      add_tiles(pixels[key], first_run[key], first_run[key + 1] - first_run[key], rows, columns);
    }
    strips_.push_back(static_cast<int32_t>(tiles_.size()));
  }
}

double Convolution::cycles() const {
  double sum = 0;
  for (const PixelTile& tile : tiles_) {
    const double pixels = tile.count, width = kernel_->width;
    // Nominal costs: one load per input vector and half a load per broadcast. A product has a
    // latency of 4 cycles.
    const double step = std::max({pixels * width, pixels + 0.5 * width, 4.0});
    double length = 0;
    for (int32_t i = 0; i < tile.run_count; ++i) length += runs_[tile.first_run + i].length;
    sum += length * step + 8.0 * tile.run_count + 2 * pixels * width + 30;
  }
  const auto weights = static_cast<double>(shape_.o * shape_.kh * shape_.kw * shape_.c);
  return sum * static_cast<double>(channel_tiles_ * sample_vectors(shape_.n, *kernels_)) +
         2 * weights;  // packing
}

uint64_t Convolution::workspace_bytes() const {
  return static_cast<uint64_t>(channel_tiles_ * kernel_->width * shape_.kh * shape_.kw *
                               in_channels_) *
         sizeof(float);
}

// Packs weights [O,KH,KW,C] as [channel tile][KH][KW][input channel][width], for rows begin..end of
// the first three dimensions.
void Convolution::pack(const float* weights, float* packed, int64_t begin, int64_t end) const {
  const int64_t taps = shape_.kh * shape_.kw, width = kernel_->width;
  const bool forward = direction_ == Direction::kForward;
  const int64_t out_step = forward ? taps * shape_.c : 1;
  const int64_t in_step = forward ? 1 : taps * shape_.c;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t channel = row / taps * width, tap = row % taps;
    const float* from = weights + (forward ? tap : taps - 1 - tap) * shape_.c + channel * out_step;
    float* to = packed + row * in_channels_ * width;
    const int64_t valid = std::min(width, out_channels_ - channel);
    for (int64_t i = 0; i < in_channels_; ++i, to += width) {
      for (int64_t t = 0; t < width; ++t)
        to[t] = t < valid ? from[t * out_step + i * in_step] : 0.0f;
    }
  }
}

void Convolution::run_unit(const float* in, const float* packed, float* out, const PostOps& post,
                           int64_t unit) const {
  const auto strip_count = static_cast<int64_t>(strips_.size()) - 1;
  const int64_t split = unit % channel_splits_;
  const int64_t strip = unit / channel_splits_ % strip_count;
  const int64_t block = unit / channel_splits_ / strip_count;
  const int64_t y_block = block * out_pixels_ * out_channels_ * kBlock;
  const int64_t w_tile = shape_.kh * shape_.kw * in_channels_ * kernel_->width;
  ConvTile tile{};
  tile.x = in + block * in_pixels_ * in_channels_ * kBlock;
  tile.runs = runs_.data();
  tile.post = &post;
  for (int64_t t = channel_tiles_ * split / channel_splits_;
       t < channel_tiles_ * (split + 1) / channel_splits_; ++t) {
    tile.channel = static_cast<int32_t>(t * kernel_->width);
    tile.channels =
        static_cast<int32_t>(std::min<int64_t>(kernel_->width, out_channels_ - tile.channel));
    tile.y_offset = y_block + static_cast<int64_t>(tile.channel) * kBlock;
    tile.y = out + tile.y_offset;
    tile.w = packed + t * w_tile;
    for (int32_t i = strips_[strip]; i < strips_[strip + 1]; ++i) {
      tile.pixels = &tiles_[i];
      kernel_->kernels[tiles_[i].count - 1](tile);
    }
  }
}

void Convolution::run(const float* in, const float* weights, float* out, void* workspace,
                      const PostOps& post) const {
  auto* packed = static_cast<float*>(workspace);
  const int64_t rows = channel_tiles_ * shape_.kh * shape_.kw;
  const int64_t units =
      sample_blocks(shape_.n) * (static_cast<int64_t>(strips_.size()) - 1) * channel_splits_;
#pragma omp parallel num_threads(threads_)
  {
    const int64_t part = omp_get_thread_num(), parts = omp_get_num_threads();
    pack(weights, packed, rows * part / parts, rows * (part + 1) / parts);
#pragma omp barrier
    for (int64_t unit = units * part / parts; unit < units * (part + 1) / parts; ++unit) {
      run_unit(in, packed, out, post, unit);
    }
  }
}

}  // namespace backends::cpu::batch_blocked
