// Transforms inputs, multiplies the positions of the transformed tiles, and transforms the results
// back.
#include "backends/cpu/batch_blocked/winograd.h"

#include <algorithm>

#include "backends/cpu/parallel.h"

namespace backends::cpu::batch_blocked {

namespace {

// Bytes of the second-level cache for the transformed inputs of a group, which are read once for
// each channel tile.
constexpr int64_t kGroupBytes = 600 * 1024;

// Bytes of transformed weights that may stay in the caches until they are multiplied.
constexpr int64_t kCachedWeights = 4 << 20;
constexpr int64_t kPackedAtOnce = 8;  // vectors of pairs of channels
// If fewer tiles than this fit into a group, the weights are read too often.
constexpr int64_t kFewestTiles = 2;
// Bytes of the transformed inputs of one position, which all channel tiles read.
constexpr int64_t kPositionBytes = 512 * 1024;

// The products of `count` tiles, as pixels of a convolution with one tap.
std::vector<PixelTile> product_tiles(int64_t count, const ConvKernel& kernel, int64_t channels) {
  std::vector<PixelTile> result;
  const int64_t parts = divide_up(count, kernel.max_pixels);
  for (int64_t part = 0; part < parts; ++part) {
    PixelTile tile{};
    tile.run_count = 1;
    for (int64_t i = count * part / parts; i < count * (part + 1) / parts; ++i) {
      tile.x[tile.count] = static_cast<int32_t>(i * channels);
      tile.y[tile.count++] = static_cast<int32_t>(i * kernel.width);
    }
    result.push_back(tile);
  }
  return result;
}

}  // namespace

// The tiles begin..end of a sample block, and the buffers for them.
struct Winograd::Group {
  int64_t begin, end;
  float* in;  // sample block of the input
  float* out;
  int64_t out_offset;
  float* spectral_in;   // [position][tile][input channel][kBlock]
  float* spectral_out;  // [position][tile][width][kBlock]
  const std::vector<PixelTile>* products;
  int64_t count() const { return end - begin; }
};

const WinogradKernel* find_winograd(const ConvShape& s, const KernelTable& kernels) {
  if (s.kh != s.kw || s.stride_h != 1 || s.stride_w != 1 || s.dilation_h != 1 ||
      s.dilation_w != 1) {
    return nullptr;
  }
  for (int32_t i = 0; i < kernels.winograd_count; ++i) {
    if (kernels.winograd[i].filter == s.kh) return &kernels.winograd[i];
  }
  return nullptr;
}

Winograd::Winograd(const ConvShape& shape, Direction direction, int threads,
                   const KernelTable& kernels)
    : shape_(shape),
      direction_(direction),
      threads_(std::max(1, threads)),
      kernels_(&kernels),
      winograd_(find_winograd(shape, kernels)) {
  size_ = winograd_->outputs + winograd_->filter - 1;
  in_channels_ = forward() ? shape.c : shape.o;
  out_channels_ = forward() ? shape.o : shape.c;
  product_ = &best_width(kernels, out_channels_);
  channel_tiles_ = divide_up(out_channels_, product_->width);
  tile_columns_ = divide_up(shape.q, winograd_->outputs);
  tiles_ = tile_columns_ * divide_up(shape.p, winograd_->outputs);
  const int64_t tile_bytes = positions() * in_channels_ * kBlock * 4;
  const int64_t fitting = kGroupBytes / tile_bytes;
  if (fitting < kFewestTiles) {
    const int64_t blocks = sample_blocks(shape.n);
    pass_blocks_ = std::clamp<int64_t>(kPositionBytes / (tiles_ * in_channels_ * kBlock * 4), 1,
                                       std::max<int64_t>(blocks, 1));
    const int64_t last = (blocks + pass_blocks_ - 1) % pass_blocks_ + 1;
    products_ = product_tiles(pass_blocks_ * tiles_, *product_, in_channels_);
    remainder_ = product_tiles(last * tiles_, *product_, in_channels_);
    group_tiles_ = groups_ = 1;
    return;
  }
  const int64_t most = std::min(fitting, tiles_);
  groups_ = divide_up(tiles_, most);
  group_tiles_ = divide_up(tiles_, groups_);
  groups_ = divide_up(tiles_, group_tiles_);
  products_ = product_tiles(group_tiles_, *product_, in_channels_);
  remainder_ = product_tiles(tiles_ - (groups_ - 1) * group_tiles_, *product_, in_channels_);
}

int64_t Winograd::packed_step() const {
  return divide_up(in_channels_ * product_->width, kBlock) * kBlock;
}

int64_t Winograd::packed_floats() const { return channel_tiles_ * positions() * packed_step(); }

int64_t Winograd::spectral_in_floats() const {
  return positions() * group_tiles_ * in_channels_ * kBlock;
}

int64_t Winograd::spectral_out_floats() const {
  return positions() * group_tiles_ * product_->width * kBlock;
}

uint64_t Winograd::workspace_bytes() const {
  const int64_t spectral = pass_blocks_ > 0
                               ? pass_in_floats() + pass_out_floats()
                               : threads_ * (spectral_in_floats() + spectral_out_floats());
  return static_cast<uint64_t>(packed_floats() + spectral) * sizeof(float);
}

double Winograd::cycles() const {
  const double width = product_->width;
  double products = 0;  // of one group, position and channel tile
  for (const PixelTile& tile : products_) {
    const double pixels = tile.count;
    products += static_cast<double>(in_channels_) * std::max(pixels * width, pixels + 0.5 * width) +
                2 * pixels * width + 40;
  }
  // A transform of n x n by n x n takes 2 n^3 products, less those with zeros, and passes over
  // memory twice.
  const double n = static_cast<double>(size_), m = winograd_->outputs;
  const double big = 1.6 * n * n * n + 3 * n * n;
  const double small = 1.6 * n * m * (n + m) + 3 * n * n;
  const double in = forward() ? big : small, out = forward() ? small : big + 2 * n * n;
  const double group =
      static_cast<double>(channel_tiles_ * positions()) * products +
      static_cast<double>(group_tiles_) *
          (static_cast<double>(in_channels_) * in + static_cast<double>(out_channels_) * out);
  const double weights = 2.2 * n * n * static_cast<double>(shape_.o * shape_.c);  // measured
  return weights + group * static_cast<double>(groups_ * sample_vectors(shape_.n, *kernels_));
}

// Writes the transformed weights as [channel tile][position][input channel][width], with the last
// two dimensions padded to whole vectors. A unit is kPackedAtOnce vectors of channel pairs of one
// channel tile; the channel tile varies fastest, so that the lines of the weights are read while
// they are in the cache, in either direction.
void Winograd::pack(const float* weights, float* packed, int64_t begin, int64_t end) const {
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t first = unit / channel_tiles_ * kPackedAtOnce;
    const int64_t last = std::min(first + kPackedAtOnce, packed_step() / kBlock);
    for (int64_t v = first; v < last; ++v) pack_vector(weights, packed, unit % channel_tiles_, v);
  }
}

int64_t Winograd::pack_units() const {
  return divide_up(packed_step() / kBlock, kPackedAtOnce) * channel_tiles_;
}

void Winograd::pack_vector(const float* weights, float* packed, int64_t channel_tile,
                           int64_t vector) const {
  const int64_t taps = shape_.kh * shape_.kw, width = product_->width;
  const int64_t first = vector * kBlock, channel = channel_tile * width;
  static constexpr float kNothing[1] = {};
  const float* from[kBlock];  // the first tap of each pair of channels
  int64_t step[kBlock];       // floats between its taps
  int64_t in = first / width, out = first % width;
  for (int64_t i = 0; i < kBlock; ++i) {
    const bool exists = in < in_channels_ && channel + out < out_channels_;
    const int64_t o = forward() ? channel + out : in, c = forward() ? in : channel + out;
    from[i] = exists ? weights + o * taps * shape_.c + c : kNothing;
    step[i] = exists ? shape_.c : 0;
    if (++out == width) out = 0, ++in;
  }
  alignas(64) float lanes[5 * 5 * kBlock];
  for (int64_t tap = 0; tap < taps; ++tap) {
    for (int64_t i = 0; i < kBlock; ++i) lanes[tap * kBlock + i] = from[i][tap * step[i]];
  }
  const bool large = packed_floats() * static_cast<int64_t>(sizeof(float)) > kCachedWeights;
  (large ? winograd_->weights_past_caches : winograd_->weights)(
      lanes, packed + channel_tile * positions() * packed_step() + first, packed_step());
}

WinogradPatch Winograd::input_patch(int64_t t) const {
  WinogradPatch patch{};
  patch.height = forward() ? shape_.h : shape_.p;
  patch.width = forward() ? shape_.w : shape_.q;
  patch.pixel = in_channels_ * kBlock;
  patch.row = t / tile_columns_ * winograd_->outputs - (forward() ? shape_.pad_top : 0);
  patch.column = t % tile_columns_ * winograd_->outputs - (forward() ? shape_.pad_left : 0);
  return patch;
}

WinogradPatch Winograd::output_patch(int64_t t) const {
  WinogradPatch patch{};
  patch.height = forward() ? shape_.p : shape_.h;
  patch.width = forward() ? shape_.q : shape_.w;
  patch.pixel = out_channels_ * kBlock;
  patch.row = t / tile_columns_ * winograd_->outputs - (forward() ? 0 : shape_.pad_top);
  patch.column = t % tile_columns_ * winograd_->outputs - (forward() ? 0 : shape_.pad_left);
  return patch;
}

void Winograd::transform_inputs(const Group& g) const {
  for (int64_t t = g.begin; t < g.end; ++t) {
    WinogradPatch patch = input_patch(t);
    patch.image = g.in;
    patch.channels = in_channels_;
    patch.position_step = g.count() * in_channels_ * kBlock;
    patch.spectral = g.spectral_in + (t - g.begin) * in_channels_ * kBlock;
    forward() ? winograd_->input(patch) : winograd_->output_adjoint(patch);
  }
}

void Winograd::multiply(const Group& g, const float* packed_tile) const {
  const PostOps none;
  const Run all{0, 0, static_cast<int32_t>(in_channels_)};
  ConvTile tile{};
  tile.runs = &all;
  tile.post = &none;
  tile.channels = product_->width;
  for (int64_t position = 0; position < positions(); ++position) {
    tile.x = g.spectral_in + position * g.count() * in_channels_ * kBlock;
    tile.w = packed_tile + position * packed_step();
    tile.y = g.spectral_out + position * g.count() * product_->width * kBlock;
    for (const PixelTile& pixels : *g.products) {
      tile.pixels = &pixels;
      product_->kernels[pixels.count - 1](tile);
    }
  }
}

void Winograd::transform_outputs(const Group& g, int64_t channel, const PostOps& post) const {
  for (int64_t t = g.begin; t < g.end; ++t) {
    WinogradPatch patch = output_patch(t);
    patch.image = g.out + channel * kBlock;
    patch.image_offset = g.out_offset + channel * kBlock;
    patch.first_channel = static_cast<int32_t>(channel);
    patch.channels = std::min<int64_t>(product_->width, out_channels_ - channel);
    patch.position_step = g.count() * product_->width * kBlock;
    patch.post = &post;
    patch.spectral = g.spectral_out + (t - g.begin) * product_->width * kBlock;
    forward() ? winograd_->output(patch) : winograd_->input_adjoint(patch);
  }
}

void Winograd::run_group(const Group& group, const float* packed, const PostOps& post) const {
  transform_inputs(group);
  const int64_t tile_floats = positions() * packed_step();
  for (int64_t t = 0; t < channel_tiles_; ++t) {
    multiply(group, packed + t * tile_floats);
    transform_outputs(group, t * product_->width, post);
  }
}

// A work item is a group of tiles for forward, and a whole sample block for the data gradient,
// because the patches of dx overlap.
void Winograd::run_unit(const float* in, const float* packed, float* out, float* scratch,
                        const PostOps& post, int64_t unit) const {
  const int64_t in_pixels = forward() ? shape_.h * shape_.w : shape_.p * shape_.q;
  const int64_t out_pixels = forward() ? shape_.p * shape_.q : shape_.h * shape_.w;
  const int64_t block = forward() ? unit / groups_ : unit;
  const int64_t first = forward() ? unit % groups_ : 0;
  const int64_t out_size = out_pixels * out_channels_ * kBlock;
  Group group{};
  group.in = const_cast<float*>(in) + block * in_pixels * in_channels_ * kBlock;
  group.out_offset = block * out_size;
  group.out = out + group.out_offset;
  group.spectral_in = scratch;
  group.spectral_out = scratch + spectral_in_floats();
  if (!forward()) std::fill(group.out, group.out + out_size, 0.0f);
  for (int64_t i = first; i < (forward() ? first + 1 : groups_); ++i) {
    group.begin = i * group_tiles_;
    group.end = std::min(tiles_, group.begin + group_tiles_);
    group.products = i + 1 == groups_ ? &remainder_ : &products_;
    run_group(group, packed, post);
  }
  if (!forward() && post.count > 0) {
    kernels_->apply_post(group.out, group.out_offset, out_size, static_cast<int32_t>(out_channels_),
                         post);
  }
}

void Winograd::run(const float* in, const float* weights, float* out, void* workspace,
                   const PostOps& post) const {
  auto* packed = static_cast<float*>(workspace);
  const int64_t units = sample_blocks(shape_.n) * (forward() ? groups_ : 1);
  const int64_t scratch_floats =
      pass_blocks_ > 0 ? 0 : spectral_in_floats() + spectral_out_floats();
  const int64_t pack_count = pack_units();
  float* const scratch = packed + packed_floats();
  parallel_for(threads_, pack_count, 1,
               [&](int64_t begin, int64_t end) { pack(weights, packed, begin, end); });
  if (pass_blocks_ > 0) return run_by_position(in, packed, out, scratch, post);
  parallel_parts(threads_, units, 1, 1, [&](int part, int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit)
      run_unit(in, packed, out, scratch + part * scratch_floats, post, unit);
  });
}

}  // namespace backends::cpu::batch_blocked
