#include "backends/cpu/batch_blocked/winograd_gradient.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/batch_blocked/weight_gradient.h"

namespace backends::cpu::batch_blocked {

namespace {

// Pixels (tiles of all blocks of a chunk) over which an accumulator stays in a register. More would
// push the transformed inputs of one position, read once for each output tile, out of the
// first-level cache; fewer would spend the time on loading and storing accumulators.
constexpr int64_t kPixels = 18;
// Of one thread; most are accumulators, (m + r - 1)^2 vectors for each pair of channels.
constexpr int64_t kMostScratchBytes = 64 << 20;

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

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
  for (int32_t i = 0; i < kernels.weights_count; ++i) {
    const WeightKernel& k = kernels.weights[i];
    if (k.rows * k.columns != 1 || k.outputs > shape.o || k.inputs > shape.c) continue;
    const int64_t o = divide_up(shape.o, k.outputs), c = divide_up(shape.c, k.inputs);
    const double cost = static_cast<double>(o * c) * pixel_cycles(k);
    if (cost < best) {
      best = cost;
      kernel_ = &k;
      o_tiles_ = o, c_tiles_ = c;
    }
  }
  const int64_t share = divide_up(sample_blocks(shape.n), threads_);
  chunk_ = std::clamp<int64_t>(kPixels / tiles_, 1, std::max<int64_t>(1, share));
}

int64_t WinogradGradient::acc_vectors() const {
  return divide_up(bias_vector() + o_tiles_ * kernel_->outputs, kBlock) * kBlock;
}

int64_t WinogradGradient::scratch_floats() const {
  const int64_t spectral = positions() * chunk_ * tiles_ * (shape_.c + shape_.o) * kBlock;
  return spectral + acc_vectors() * (kBlock + 1);
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
  s.dy = s.x + positions() * chunk_ * tiles_ * shape_.c * kBlock;
  s.acc = s.dy + positions() * chunk_ * tiles_ * shape_.o * kBlock;
  s.sums = s.acc + acc_vectors() * kBlock;
  return s;
}

double WinogradGradient::cycles() const {
  const double n = static_cast<double>(size_), m = winograd_->outputs;
  const double in = 1.6 * 2 * n * n * n + 3 * n * n, out = 1.6 * n * m * (n + m) + 3 * n * n;
  const double transforms = static_cast<double>(tiles_) * (static_cast<double>(shape_.c) * in +
                                                           static_cast<double>(shape_.o) * out);
  // Accumulators come from the third-level cache: 16 bytes a cycle.
  const double calls =
      static_cast<double>(positions() * o_tiles_ * c_tiles_) / static_cast<double>(chunk_);
  const double call = static_cast<double>(chunk_ * tiles_) * pixel_cycles(*kernel_) +
                      static_cast<double>(tile_vectors()) * 8 + 40;
  const double finish = static_cast<double>(shape_.o * shape_.c * threads_) * 5 * n * n;
  // Accumulators that share the cache with the images come slower: measured 1.5 times the cycles
  // for 9 MB (64 to 64 channels), 1.9 times for 38 MB (128 to 128).
  const double accumulators =
      static_cast<double>(shape_.o * shape_.c) * n * n * kBlock * sizeof(float);
  const double crowded = 1 + 0.35 * std::max(0.0, std::log2(accumulators / (4 << 20)));
  return finish + crowded * (transforms + calls * call) *
                      static_cast<double>(sample_vectors(shape_.n, *kernels_));
}

// Lanes without a sample would reach the sums.
void WinogradGradient::clear_padding(float* spectral, int64_t channels, int64_t slot,
                                     int64_t slots) const {
  const int64_t rest = shape_.n % kBlock;
  for (int64_t position = 0; position < positions(); ++position) {
    float* at = spectral + (position * slots + slot) * tiles_ * channels * kBlock;
    for (int64_t v = 0; v < tiles_ * channels; ++v) {
      std::fill(at + v * kBlock + rest, at + (v + 1) * kBlock, 0.0f);
    }
  }
}

void WinogradGradient::transform_block(const float* x, const float* dy, int64_t block, int64_t slot,
                                       int64_t slots, const Scratch& s) const {
  WinogradPatch in{}, out{};
  in.image = const_cast<float*>(x) + block * shape_.h * shape_.w * shape_.c * kBlock;
  in.height = shape_.h;
  in.width = shape_.w;
  in.channels = shape_.c;
  out.image = const_cast<float*>(dy) + block * shape_.p * shape_.q * shape_.o * kBlock;
  out.height = shape_.p;
  out.width = shape_.q;
  out.channels = shape_.o;
  for (WinogradPatch* p : {&in, &out}) {
    p->pixel = p->channels * kBlock;
    p->position_step = slots * tiles_ * p->pixel;
  }
  for (int64_t t = 0; t < tiles_; ++t) {
    out.row = t / tile_columns_ * winograd_->outputs;
    out.column = t % tile_columns_ * winograd_->outputs;
    in.row = out.row - shape_.pad_top;
    in.column = out.column - shape_.pad_left;
    in.spectral = s.x + (slot * tiles_ + t) * in.pixel;
    out.spectral = s.dy + (slot * tiles_ + t) * out.pixel;
    winograd_->input(in);
    winograd_->output_adjoint(out);
  }
  if ((block + 1) * kBlock > shape_.n) {
    clear_padding(s.x, shape_.c, slot, slots);
    clear_padding(s.dy, shape_.o, slot, slots);
  }
}

// The tiles of all blocks as one row of pixels.
void WinogradGradient::multiply(int64_t slots, const Scratch& s, bool bias) const {
  WeightTile tile{};
  tile.row_end = 1;
  tile.height = 1;
  tile.width = tile.out_width = static_cast<int32_t>(slots * tiles_);
  tile.x_pixel = static_cast<int32_t>(shape_.c * kBlock);
  tile.dy_pixel = static_cast<int32_t>(shape_.o * kBlock);
  tile.stride_h = tile.stride_w = tile.dilation_h = tile.dilation_w = 1;
  tile.acc = s.acc;
  for (int64_t position = 0; position < positions(); ++position) {
    const float* x = s.x + position * tile.width * tile.x_pixel;
    const float* dy = s.dy + position * tile.width * tile.dy_pixel;
    const bool sum = bias && position == kSumPosition * size_ + kSumPosition;
    for (int64_t o = 0; o < o_tiles_; ++o) {
      tile.dy = dy + std::min<int64_t>(o * kernel_->outputs, shape_.o - kernel_->outputs) * kBlock;
      for (int64_t c = 0; c < c_tiles_; ++c) {
        tile.x = x + std::min<int64_t>(c * kernel_->inputs, shape_.c - kernel_->inputs) * kBlock;
        tile.bias =
            sum && c == 0 ? s.acc + (bias_vector() + o * kernel_->outputs) * kBlock : nullptr;
        kernel_->kernel(tile);
        tile.acc += tile_vectors() * kBlock;
      }
    }
  }
}

// Output channels begin..end: adds the parts' sums, transforms back.
void WinogradGradient::finish(const float* sums, int64_t parts, int64_t part_step, int64_t begin,
                              int64_t end, float* dw, float* db) const {
  alignas(64) float spectral[8 * 8 * kBlock];
  const auto total = [&](int64_t at) {
    float sum = sums[at];
    for (int64_t p = 1; p < parts; ++p) sum += sums[p * part_step + at];
    return sum;
  };
  const int64_t ot = kernel_->outputs, ct = kernel_->inputs;
  for (int64_t o = begin; o < end; ++o) {
    const int64_t o_tile = o / ot, o_in = o - std::min(o_tile * ot, shape_.o - ot);
    for (int64_t c0 = 0; c0 < shape_.c; c0 += kBlock) {
      const int64_t count = std::min<int64_t>(kBlock, shape_.c - c0);
      for (int64_t position = 0; position < positions(); ++position) {
        for (int64_t i = 0; i < count; ++i) {
          const int64_t c_tile = (c0 + i) / ct;
          const int64_t c_in = c0 + i - std::min(c_tile * ct, shape_.c - ct);
          const int64_t tile = (position * o_tiles_ + o_tile) * c_tiles_ + c_tile;
          spectral[position * kBlock + i] = total((tile * ot + o_in) * ct + c_in);
        }
      }
      winograd_->weights_adjoint(spectral, dw + o * shape_.kh * shape_.kw * shape_.c + c0, shape_.c,
                                 static_cast<int32_t>(count));
    }
    if (db) db[o] = total(bias_vector() + o_tile * ot + o_in);
  }
}

void WinogradGradient::run(const float* x, const float* dy, float* dw, float* db,
                           void* workspace) const {
  const int64_t blocks = sample_blocks(shape_.n);
#pragma omp parallel num_threads(threads_)
  {
    const int64_t part = omp_get_thread_num(), parts = omp_get_num_threads();
    const Scratch s = scratch(workspace, part);
    std::fill(s.acc, s.acc + acc_vectors() * kBlock, 0.0f);
    const int64_t last = blocks * (part + 1) / parts;
    for (int64_t first = blocks * part / parts; first < last; first += chunk_) {
      const int64_t slots = std::min(chunk_, last - first);
      for (int64_t i = 0; i < slots; ++i) transform_block(x, dy, first + i, i, slots, s);
      multiply(slots, s, db != nullptr);
    }
    kernels_->sum_lanes(s.acc, s.sums, acc_vectors());
#pragma omp barrier
    finish(scratch(workspace, 0).sums, parts, scratch_floats(), shape_.o * part / parts,
           shape_.o * (part + 1) / parts, dw, db);
  }
}

}  // namespace backends::cpu::batch_blocked
