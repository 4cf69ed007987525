// Runs convolutions on packed bfloat16 pairs by the matrix unit, and estimates their cycles.
#include "backends/cpu/batch_blocked/matrix_unit_convolution.h"

#include <algorithm>
#include <atomic>

#include "backends/cpu/parallel.h"

namespace backends::cpu::batch_blocked {

namespace {

// Bytes of the second-level cache (2 MiB where there is a matrix unit) for the packed input of a
// strip, which every channel tile reads.
constexpr int64_t kBytesOfUnitStrip = 1280 * 1024;
// Measured cycles: of a step of 32 channels of two pixels and 32 outputs, whose arithmetic takes
// 384, and of packing a register.
constexpr double kStepCycles = 520, kPackCycles = 7;

}  // namespace

// The buffers of one run.
struct MatrixUnitConvolution::Call {
  const float* in;
  const float* weights;
  float* out;
  char* packed;  // weights: [channel tile][tap][step][kPackedWeights]
  const PostOps* post;
};

MatrixUnitConvolution::MatrixUnitConvolution(const ConvShape& shape, Direction direction,
                                             int threads, const KernelTable& kernels)
    : shape_(shape),
      direction_(direction),
      threads_(std::max(1, threads)),
      kernels_(matrix_unit_kernels()),
      packing_(products::split_kernels()),
      images_(shape, direction),
      steps_(divide_up(images_.in_channels, kMatrixChannels)),
      channel_tiles_(divide_up(images_.out_channels, kMatrixChannels)),
      geometry_(shape, direction, {steps_, images_.out_channels, 2, strip_rows()}),
      exact_(shape, direction, threads, kernels) {
  const int64_t units = sample_blocks(shape.n) * strip_count();
  if (units % threads_ != 0 && units < 8 * threads_) channel_splits_ = channel_tiles_;
}

int64_t MatrixUnitConvolution::strip_rows() const {
  const int64_t rows =
      images_.rows_that_fit(kBytesOfUnitStrip, images_.in_width * steps_ * kPackedPixel, shape_.kh);
  const int64_t blocks = sample_blocks(shape_.n);
  if (blocks % threads_ == 0) return rows;
  // Every thread finds a strip, if there are enough rows.
  return std::min(rows, divide_up(images_.out_height * blocks, threads_));
}

int64_t MatrixUnitConvolution::strip_bytes() const {
  int64_t rows = 0;
  for (const Strip& strip : geometry_.strips) {
    rows = std::max<int64_t>(rows, strip.row_end - strip.row_begin);
  }
  return rows * images_.in_width * steps_ * kPackedPixel;
}

uint64_t MatrixUnitConvolution::workspace_bytes() const {
  const int64_t bytes =
      channel_tiles_ * taps() * steps_ * kPackedWeights + threads_ * strip_bytes();
  return std::max(static_cast<uint64_t>(bytes), exact_.workspace_bytes());
}

double MatrixUnitConvolution::cycles() const {
  double steps = 0;
  for (const PixelTile& tile : geometry_.tiles) {
    for (int32_t i = 0; i < tile.run_count; ++i) steps += geometry_.runs[tile.first_run + i].length;
    steps += 0.5;  // to store the sums
  }
  double packed = 0;  // registers of a block
  for (const Strip& strip : geometry_.strips) {
    packed += static_cast<double>((strip.row_end - strip.row_begin) * images_.in_width * steps_ *
                                  kMatrixChannels * channel_splits_);
  }
  const auto weights = static_cast<double>(channel_tiles_ * taps() * steps_) * 2 * kMatrixChannels;
  const auto blocks = static_cast<double>(sample_blocks(shape_.n));
  return blocks *
             (steps * static_cast<double>(channel_tiles_) * kStepCycles + packed * kPackCycles) +
         3 * kPackCycles * weights;
}

// Packs this member's share of the weights [O,KH,KW,C]; the filter is mirrored for the gradient. A
// unit is one tap of a channel tile.
bool MatrixUnitConvolution::pack_weights(const Call& call, int64_t part, int64_t parts) const {
  const int64_t units = channel_tiles_ * taps(), output = taps() * shape_.c;
  bool good = true;
  for (int64_t unit = units * part / parts; unit < units * (part + 1) / parts; ++unit) {
    const int64_t channel = unit / taps() * kMatrixChannels, tap = unit % taps();
    const int64_t rows = std::min<int64_t>(kMatrixChannels, images_.out_channels - channel);
    const products::Matrix weights =
        forward()
            ? products::Matrix{call.weights + channel * output + tap * shape_.c, output, 1}
            : products::Matrix{call.weights + (taps() - 1 - tap) * shape_.c + channel, 1, output};
    good &= packing_->pack_left(weights, rows, images_.in_channels,
                                call.packed + unit * steps_ * kPackedWeights);
  }
  return good;
}

// A unit is some channel tiles of a strip of a sample block.
bool MatrixUnitConvolution::run_unit(const Call& call, int64_t unit, char* packed) const {
  const int64_t split = unit % channel_splits_, block = unit / channel_splits_ / strip_count();
  const Strip& strip = geometry_.strips[unit / channel_splits_ % strip_count()];
  const float* rows = call.in + (block * images_.in_pixels() + strip.row_begin * images_.in_width) *
                                    images_.in_channels * kBlock;
  const auto samples = static_cast<int32_t>(std::min<int64_t>(kBlock, shape_.n - block * kBlock));
  if (!kernels_->pack_pixels(rows, images_.in_channels,
                             (strip.row_end - strip.row_begin) * images_.in_width, samples,
                             packed)) {
    return false;
  }
  MatrixTile tile{};
  tile.x = packed;
  tile.runs = geometry_.runs.data();
  tile.post = call.post;
  for (int64_t t = channel_tiles_ * split / channel_splits_;
       t < channel_tiles_ * (split + 1) / channel_splits_; ++t) {
    tile.channel = static_cast<int32_t>(t * kMatrixChannels);
    tile.channels = static_cast<int32_t>(
        std::min<int64_t>(kMatrixChannels, images_.out_channels - tile.channel));
    tile.y_offset = (block * images_.out_pixels() * images_.out_channels + tile.channel) * kBlock;
    tile.y = call.out + tile.y_offset;
    tile.w = call.packed + t * taps() * steps_ * kPackedWeights;
    for (int32_t i = strip.tile_begin; i < strip.tile_end; ++i) {
      tile.pixels = &geometry_.tiles[i];
      kernels_->convolve(tile);
    }
  }
  return true;
}

void MatrixUnitConvolution::run(const float* in, const float* weights, float* out, void* workspace,
                                const PostOps& post) const {
  const Call call{in, weights, out, static_cast<char*>(workspace), &post};
  char* const strips = call.packed + channel_tiles_ * taps() * steps_ * kPackedWeights;
  const int64_t units = sample_blocks(shape_.n) * strip_count() * channel_splits_;
  std::atomic<bool> good = true;
  run_parts(threads_, [&](int part) {
    if (!pack_weights(call, part, threads_)) good = false;
  });
  parallel_parts(threads_, units, 1, 1, [&](int part, int64_t begin, int64_t end) {
    kernels_->begin();
    for (int64_t unit = begin; unit < end && good; ++unit) {
      if (!run_unit(call, unit, strips + part * strip_bytes())) good = false;
    }
    kernels_->end();
  });
  if (!good) exact_.run(in, weights, out, workspace, post);
}

}  // namespace backends::cpu::batch_blocked
