// Winograd's algorithm position by position. With many channels a group of tiles that fits into the
// cache would be one or two tiles, and the weights, which are larger than the cache, would be read
// once for each group. Here a pass transforms all tiles of several sample blocks, multiplies them
// one position after the other, so that the weights are read once in a pass, and transforms the
// results.
#include <algorithm>

#include "backends/cpu/batch_blocked/winograd.h"
#include "backends/cpu/parallel.h"

namespace backends::cpu::batch_blocked {
namespace {

// Floats between the positions of a transform, so that they do not all fall into the same sets of a
// cache.
constexpr int64_t kGap = 5 * kBlock;
constexpr int64_t kChannelsAtOnce = 64;  // of an input transform, so that threads find enough units
}  // namespace

// The tiles of sample blocks `first` to `first + blocks`.
struct Winograd::Pass {
  const float* in;
  float* out;
  int64_t first, blocks, tiles;
  float* spectral_in;   // [position][tile][input channel][kBlock]
  float* spectral_out;  // [position][channel tile][tile][width][kBlock]
};

int64_t Winograd::pass_in_step(int64_t tiles) const { return tiles * in_channels_ * kBlock + kGap; }

int64_t Winograd::pass_out_step(int64_t tiles) const {
  return channel_tiles_ * tiles * product_->width * kBlock + kGap;
}

int64_t Winograd::pass_in_floats() const {
  return positions() * pass_in_step(pass_blocks_ * tiles_);
}

int64_t Winograd::pass_out_floats() const {
  return positions() * pass_out_step(pass_blocks_ * tiles_);
}

// A unit is some channels of a tile.
void Winograd::transform_inputs(const Pass& pass, int64_t unit) const {
  const int64_t chunks = divide_up(in_channels_, kChannelsAtOnce);
  const int64_t tile = unit / chunks, channel = unit % chunks * kChannelsAtOnce;
  const int64_t pixels = forward() ? shape_.h * shape_.w : shape_.p * shape_.q;
  const int64_t block = pass.first + tile / tiles_;
  WinogradPatch patch = input_patch(tile % tiles_);
  patch.image = const_cast<float*>(pass.in) + (block * pixels * in_channels_ + channel) * kBlock;
  patch.channels = std::min(kChannelsAtOnce, in_channels_ - channel);
  patch.position_step = pass_in_step(pass.tiles);
  patch.spectral = pass.spectral_in + (tile * in_channels_ + channel) * kBlock;
  forward() ? winograd_->input(patch) : winograd_->output_adjoint(patch);
}

// A unit is a channel tile at a position.
void Winograd::multiply(const Pass& pass, const float* packed, int64_t unit) const {
  const PostOps none;
  const Run all{0, 0, static_cast<int32_t>(in_channels_)};
  const int64_t position = unit / channel_tiles_, channel_tile = unit % channel_tiles_;
  ConvTile tile{};
  tile.runs = &all;
  tile.post = &none;
  tile.channels = product_->width;
  tile.x = pass.spectral_in + position * pass_in_step(pass.tiles);
  tile.w = packed + (channel_tile * positions() + position) * packed_step();
  tile.y = pass.spectral_out + position * pass_out_step(pass.tiles) +
           channel_tile * pass.tiles * product_->width * kBlock;
  for (const PixelTile& pixels : pass.blocks == pass_blocks_ ? products_ : remainder_) {
    tile.pixels = &pixels;
    product_->kernels[pixels.count - 1](tile);
  }
}

// A unit is a channel tile of a sample block, because the patches of dx overlap.
void Winograd::transform_outputs(const Pass& pass, int64_t unit, const PostOps& post) const {
  const int64_t block = unit / channel_tiles_, channel_tile = unit % channel_tiles_;
  const int64_t channel = channel_tile * product_->width;
  const int64_t channels = std::min<int64_t>(product_->width, out_channels_ - channel);
  const int64_t pixels = forward() ? shape_.p * shape_.q : shape_.h * shape_.w;
  const int64_t offset = ((pass.first + block) * pixels * out_channels_ + channel) * kBlock;
  if (!forward()) {
    for (int64_t i = 0; i < pixels; ++i) {
      float* pixel = pass.out + offset + i * out_channels_ * kBlock;
      std::fill(pixel, pixel + channels * kBlock, 0.0f);
    }
  }
  for (int64_t t = 0; t < tiles_; ++t) {
    WinogradPatch patch = output_patch(t);
    patch.image = pass.out + offset;
    patch.image_offset = offset;
    patch.first_channel = static_cast<int32_t>(channel);
    patch.channels = channels;
    patch.position_step = pass_out_step(pass.tiles);
    patch.post = &post;
    patch.spectral = pass.spectral_out +
                     (channel_tile * pass.tiles + block * tiles_ + t) * product_->width * kBlock;
    forward() ? winograd_->output(patch) : winograd_->input_adjoint(patch);
  }
}

void Winograd::run_by_position(const float* in, const float* packed, float* out, float* spectral,
                               const PostOps& post) const {
  const int64_t blocks = sample_blocks(shape_.n);
  for (int64_t first = 0; first < blocks; first += pass_blocks_) {
    Pass pass{in, out, first, std::min(pass_blocks_, blocks - first), 0, spectral, nullptr};
    pass.tiles = pass.blocks * tiles_;
    pass.spectral_out = spectral + pass_in_floats();
    parallel_units(threads_, pass.tiles * divide_up(in_channels_, kChannelsAtOnce),
                   [&](int64_t unit) { transform_inputs(pass, unit); });
    parallel_units(threads_, positions() * channel_tiles_,
                   [&](int64_t unit) { multiply(pass, packed, unit); });
    parallel_units(threads_, pass.blocks * channel_tiles_,
                   [&](int64_t unit) { transform_outputs(pass, unit, post); });
    if (forward() || post.count == 0) continue;
    const int64_t size = shape_.h * shape_.w * out_channels_ * kBlock;
    parallel_units(threads_, pass.blocks, [&](int64_t block) {
      const int64_t offset = (first + block) * size;
      kernels_->apply_post(out + offset, offset, size, static_cast<int32_t>(out_channels_), post);
    });
  }
}

}  // namespace backends::cpu::batch_blocked
