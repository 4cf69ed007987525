// Transforms x and dy, sums their products over tiles and samples, and transforms the sums into dw.
#include "backends/cpu/batch_blocked/winograd_gradient.h"

#include <algorithm>
#include <limits>

#include "backends/cpu/parallel.h"

namespace backends::cpu::batch_blocked {

namespace {

// The number of pixels (tiles of sample blocks) over which an accumulator stays in a register. More
// would push transformed pixels out of the second-level cache before they are multiplied; fewer
// would spend the time on adding up lanes.
constexpr int64_t kPixels = 10;
// Output tiles whose dy is transformed together. With few of them, more of what is multiplied next
// is still in the second-level cache. With both numbers the transforms of LeNet's second
// convolution take 1 MB; twice as many pixels and as many output tiles took 1.35 times as long.
constexpr int64_t kGroup = 2;
// The limit of the scratch memory of one thread.
constexpr int64_t kMostScratchBytes = 64 << 20;
// Cycles to add up the lanes of one register tile.
constexpr double kLaneSumCycles = 70;

// Estimated cycles of one pixel, on a core that does one vector product per cycle.
double pixel_cycles(const PairKernel& k) {
  const double loads = k.outputs + k.inputs;
  return std::max({static_cast<double>(k.outputs * k.inputs), 4.0, 1.2 * loads}) + 0.15 * loads;
}

}  // namespace

WinogradGradient::WinogradGradient(const ConvShape& shape, int threads, const KernelTable& kernels)
    : shape_(shape),
      threads_(std::max(1, threads)),
      kernels_(&kernels),
      winograd_(find_winograd(shape, kernels)) {
  size_ = winograd_->outputs + winograd_->filter - 1;
  tile_columns_ = divide_up(shape.q, winograd_->outputs);
  tiles_ = tile_columns_ * divide_up(shape.p, winograd_->outputs);
  double best = std::numeric_limits<double>::infinity();
  for (int32_t i = 0; i < kernels.pairs_count; ++i) {
    const PairKernel& k = kernels.pairs[i];
    if (k.outputs > shape.o || k.inputs > shape.c) continue;
    const int64_t o = divide_up(shape.o, k.outputs), c = divide_up(shape.c, k.inputs);
    const double cost = static_cast<double>(o * c) * pixel_cycles(k);
    if (cost < best) {
      best = cost;
      kernel_ = &k;
      o_tiles_ = o, c_tiles_ = c;
    }
  }
  const int64_t share = divide_up(sample_blocks(shape.n) * tiles_, threads_);
  chunk_ = divide_up(share, divide_up(share, kPixels));
  group_ = std::min(kGroup, o_tiles_);
}

int64_t WinogradGradient::tile_floats() const {
  return divide_up(static_cast<int64_t>(kernel_->outputs) * kernel_->inputs, kBlock) * kBlock;
}

int64_t WinogradGradient::first_output(int64_t o_tile) const {
  return std::min<int64_t>(o_tile * kernel_->outputs, shape_.o - kernel_->outputs);
}

int64_t WinogradGradient::first_input(int64_t c_tile) const {
  return std::min<int64_t>(c_tile * kernel_->inputs, shape_.c - kernel_->inputs);
}

int64_t WinogradGradient::scratch_floats() const {
  return positions() * chunk_ * (shape_.c + group_ * kernel_->outputs) * kBlock + sums_floats() +
         shape_.o * kBlock;
}

bool WinogradGradient::fits_memory() const {
  return scratch_floats() * static_cast<int64_t>(sizeof(float)) <= kMostScratchBytes;
}

uint64_t WinogradGradient::workspace_bytes() const {
  return static_cast<uint64_t>(threads_ * scratch_floats()) * sizeof(float);
}

WinogradGradient::Scratch WinogradGradient::scratch(void* workspace, int64_t part) const {
  Scratch s{};
  s.x = static_cast<float*>(workspace) + part * scratch_floats();
  s.dy = s.x + positions() * chunk_ * shape_.c * kBlock;
  s.sums = s.dy + positions() * chunk_ * group_ * kernel_->outputs * kBlock;
  s.bias = s.sums + sums_floats();
  return s;
}

double WinogradGradient::cycles() const {
  const double n = static_cast<double>(size_), m = winograd_->outputs;
  const double in = 1.6 * 2 * n * n * n + 3 * n * n, out = 1.6 * n * m * (n + m) + 3 * n * n;
  const double transforms =
      static_cast<double>(shape_.c) * in + static_cast<double>(shape_.o) * out;
  const auto calls = static_cast<double>(positions() * o_tiles_ * c_tiles_);
  const double call = pixel_cycles(*kernel_) + kLaneSumCycles / static_cast<double>(chunk_);
  // Measured: clearing the sums, the transform back, and cache misses.
  const double finish = 4 * static_cast<double>(sums_floats() * threads_);
  return finish + (transforms + calls * call) * static_cast<double>(tiles_) *
                      static_cast<double>(sample_vectors(shape_.n, *kernels_));
}

// Transforms pixel `index`, counted over all sample blocks. The lanes of absent samples become 0,
// because they would reach the sums.
void WinogradGradient::transform(const WinogradPatch& patch, WinogradTransform kernel,
                                 int64_t index) const {
  kernel(patch);
  const int64_t samples = shape_.n - index / tiles_ * kBlock;
  if (samples >= kBlock) return;
  for (int64_t position = 0; position < positions(); ++position) {
    float* at = patch.spectral + position * patch.position_step;
    for (int64_t c = 0; c < patch.channels; ++c, at += kBlock) {
      std::fill(at + samples, at + kBlock, 0.0f);
    }
  }
}

void WinogradGradient::transform_inputs(const float* x, int64_t first, int64_t count,
                                        const Scratch& s) const {
  WinogradPatch patch{};
  patch.height = shape_.h;
  patch.width = shape_.w;
  patch.channels = shape_.c;
  patch.pixel = shape_.c * kBlock;
  patch.position_step = count * patch.pixel;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t block = (first + i) / tiles_, tile = (first + i) % tiles_;
    patch.image = const_cast<float*>(x) + block * shape_.h * shape_.w * patch.pixel;
    patch.row = tile / tile_columns_ * winograd_->outputs - shape_.pad_top;
    patch.column = tile % tile_columns_ * winograd_->outputs - shape_.pad_left;
    patch.spectral = s.x + i * patch.pixel;
    transform(patch, winograd_->input, first + i);
  }
}

void WinogradGradient::transform_outputs(const float* dy, int64_t first, int64_t count,
                                         const Group& group, const Scratch& s) const {
  WinogradPatch patch{};
  patch.height = shape_.p;
  patch.width = shape_.q;
  patch.channels = group.channels;
  patch.pixel = shape_.o * kBlock;
  patch.position_step = count * group.channels * kBlock;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t block = (first + i) / tiles_, tile = (first + i) % tiles_;
    patch.image =
        const_cast<float*>(dy) + block * shape_.p * shape_.q * patch.pixel + group.channel * kBlock;
    patch.row = tile / tile_columns_ * winograd_->outputs;
    patch.column = tile % tile_columns_ * winograd_->outputs;
    patch.spectral = s.dy + i * group.channels * kBlock;
    transform(patch, winograd_->output_adjoint, first + i);
  }
}

void WinogradGradient::multiply(int64_t count, const Group& group, const Scratch& s) const {
  PairTile tile{};
  tile.pixels = static_cast<int32_t>(count);
  tile.x_pixel = static_cast<int32_t>(shape_.c * kBlock);
  tile.dy_pixel = static_cast<int32_t>(group.channels * kBlock);
  for (int64_t position = 0; position < positions(); ++position) {
    const float* x = s.x + position * count * tile.x_pixel;
    const float* dy = s.dy + position * count * tile.dy_pixel;
    for (int64_t o = group.begin; o < group.end; ++o) {
      tile.dy = dy + (first_output(o) - group.channel) * kBlock;
      for (int64_t c = 0; c < c_tiles_; ++c) {
        tile.x = x + first_input(c) * kBlock;
        tile.sums = s.sums + ((o * c_tiles_ + c) * positions() + position) * tile_floats();
        kernel_->kernel(tile);
      }
    }
  }
}

// Adds the bias gradient of the channels that no earlier group has processed.
void WinogradGradient::add_bias(int64_t count, const Group& group, const Scratch& s) const {
  const int64_t position = kSumPosition * size_ + kSumPosition, step = group.channels * kBlock;
  const float* dy = s.dy + position * count * step;
  float* bias = s.bias + group.channel * kBlock;
  const int64_t begin = (group.begin * kernel_->outputs - group.channel) * kBlock;
  for (int64_t i = 0; i < count; ++i, dy += step) {
    for (int64_t at = begin; at < step; ++at) bias[at] += dy[at];
  }
}

// Adds the products of pixels first..first + count to the thread's sums.
void WinogradGradient::add_pixels(const float* x, const float* dy, int64_t first, int64_t count,
                                  bool bias, const Scratch& s) const {
  transform_inputs(x, first, count, s);
  for (int64_t o = 0; o < o_tiles_; o += group_) {
    Group group{o, std::min(o + group_, o_tiles_), first_output(o), 0};
    group.channels = first_output(group.end - 1) + kernel_->outputs - group.channel;
    transform_outputs(dy, first, count, group, s);
    multiply(count, group, s);
    if (bias) add_bias(count, group, s);
  }
}

// Adds the sums of all threads for one tile and transforms the result back.
void WinogradGradient::finish(void* workspace, int64_t parts, int64_t tile, float* dw) const {
  alignas(64) float total[8 * 8 * kBlock], taps[5 * 5 * kBlock];
  const int64_t o_tile = tile / c_tiles_, c_tile = tile % c_tiles_;
  const int64_t o0 = first_output(o_tile), c0 = first_input(c_tile);
  const int64_t pairs = static_cast<int64_t>(kernel_->outputs) * kernel_->inputs;
  const int64_t tap_count = shape_.kh * shape_.kw;
  for (int64_t first = 0; first < pairs; first += kBlock) {
    for (int64_t position = 0; position < positions(); ++position) {
      float* to = total + position * kBlock;
      for (int64_t part = 0; part < parts; ++part) {
        const float* from =
            scratch(workspace, part).sums + (tile * positions() + position) * tile_floats() + first;
        for (int i = 0; i < kBlock; ++i) to[i] = (part == 0 ? 0.0f : to[i]) + from[i];
      }
    }
    winograd_->weights_adjoint(total, taps);
    for (int64_t i = first; i < std::min(pairs, first + kBlock); ++i) {
      const int64_t o = o0 + i / kernel_->inputs, c = c0 + i % kernel_->inputs;
      if (o < o_tile * kernel_->outputs || c < c_tile * kernel_->inputs) continue;
      for (int64_t tap = 0; tap < tap_count; ++tap) {
        dw[(o * tap_count + tap) * shape_.c + c] = taps[tap * kBlock + i - first];
      }
    }
  }
}

void WinogradGradient::finish_bias(void* workspace, int64_t parts, float* db) const {
  for (int64_t o = 0; o < shape_.o; ++o) {
    db[o] = 0;
    for (int64_t part = 0; part < parts; ++part) {
      const float* lanes = scratch(workspace, part).bias + o * kBlock;
      float sum = 0;
      for (int i = 0; i < kBlock; ++i) sum += lanes[i];
      db[o] += sum;
    }
  }
}

void WinogradGradient::run(const float* x, const float* dy, float* dw, float* db,
                           void* workspace) const {
  const int64_t pixels = sample_blocks(shape_.n) * tiles_, tiles = o_tiles_ * c_tiles_;
  run_parts(threads_, [&](int part) {
    const Scratch s = scratch(workspace, part);
    std::fill(s.sums, s.bias + shape_.o * kBlock, 0.0f);
    const int64_t last = pixels * (part + 1) / threads_;
    for (int64_t first = pixels * part / threads_; first < last; first += chunk_) {
      add_pixels(x, dy, first, std::min(chunk_, last - first), db != nullptr, s);
    }
  });
  parallel_parts(threads_, tiles, 1, 1, [&](int part, int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; ++tile) finish(workspace, threads_, tile, dw);
    if (db && part == 0) finish_bias(workspace, threads_, db);
  });
}

}  // namespace backends::cpu::batch_blocked
