// Packs rows of x and dy, multiplies them, and adds up the weight gradients of all threads.
#include "backends/cpu/batch_blocked/packed_gradient.h"

#include <algorithm>
#include <atomic>

#include "backends/cpu/parallel.h"

namespace backends::cpu::batch_blocked {

namespace {

// Bytes of the second-level cache (2 MiB where there is a matrix unit) for packed rows.
constexpr int64_t kRowsBytes = 1280 * 1024;
// Pixels after which the sums of a tile, 8 KiB to read and to write, no longer matter.
constexpr int64_t kEnoughPixels = 16;
constexpr int64_t kMostChunkRows = 32;
// Measured cycles of a line of sums that is read and written.
constexpr double kSumsLine = 12;
constexpr int64_t kSlack = 64;  // bytes that a kernel may write behind what it packs

// A range of integers.
struct Range {
  int64_t begin, end;
};

// The outputs q whose input q * stride + offset is inside 0..size.
Range inside(int64_t outputs, int64_t size, int64_t stride, int64_t offset) {
  const int64_t begin = offset >= 0 ? 0 : divide_up(-offset, stride);
  const int64_t end = size > offset ? divide_up(size - offset, stride) : 0;
  return {std::min(begin, outputs), std::min(end, outputs)};
}

}  // namespace

// The buffers of one run.
struct PackedGradient::Call {
  const float* x;
  const float* dy;
  float* dw;
  float* db;
  char* workspace;
};

// Packs and multiplies the rows of one thread.
class PackedGradient::Member {
 public:
  Member(const PackedGradient& owner, const Call& call, int64_t number)
      : own_(owner),
        s_(owner.shape_),
        call_(call),
        inputs_(call.workspace + number * owner.member_bytes()),
        outputs_(inputs_ + owner.slots() * owner.input_row_bytes() + kSlack),
        sums_(
            reinterpret_cast<float*>(outputs_ + owner.chunk_ * owner.output_row_bytes() + kSlack)),
        bias_(sums_ + owner.sums_bytes() / 4) {
    const int64_t row = number / owner.grid_.output_parts;
    const int64_t output = number % owner.grid_.output_parts;
    rows_ = {owner.rows() * row / owner.grid_.row_parts,
             owner.rows() * (row + 1) / owner.grid_.row_parts};
    tiles_ = {owner.output_tiles_ * output / owner.grid_.output_parts,
              owner.output_tiles_ * (output + 1) / owner.grid_.output_parts};
  }

  const float* sums() const { return sums_; }
  const float* bias() const { return bias_; }
  const Range& tiles() const { return tiles_; }

  // The answer is false if some number cannot be packed.
  bool run() {
    std::fill(bias_, bias_ + s_.o * kBlock, 0.0f);
    if (rows_.begin == rows_.end) {
      std::fill(sums_, bias_, 0.0f);
      return true;
    }
    if (own_.kernels_->begin != nullptr) own_.kernels_->begin();
    bool good = true;
    for (int64_t row = rows_.begin; row < rows_.end && good;) {
      const int64_t pair = row / s_.p, first = row - pair * s_.p;
      const int64_t count = std::min({own_.chunk_, s_.p - first, rows_.end - row});
      if (first == 0 || row == rows_.begin) packed_until_ = 0;
      good = pack(pair, first, count);
      if (good) multiply(first, count, row > rows_.begin);
      row += count;
    }
    if (own_.kernels_->end != nullptr) own_.kernels_->end();
    return good;
  }

 private:
  char* input_row(int64_t h) const { return inputs_ + h % own_.slots() * own_.input_row_bytes(); }

  // The pixel at `index` of a pair of sample blocks, from channel `channel` on.
  PixelPair pixels(const float* tensor, int64_t pair, int64_t pixels, int64_t index,
                   int64_t channels, int64_t channel) const {
    const int64_t block = pixels * channels * kBlock;
    const float* first = tensor + 2 * pair * block + (index * channels + channel) * kBlock;
    const int64_t samples = s_.n - 2 * pair * kBlock;
    return {first, samples > kBlock ? first + block : nullptr, channels - channel,
            static_cast<int32_t>(std::min<int64_t>(samples, 2 * kBlock))};
  }

  // Packs output rows first..first + count, and the input rows under them that are not there yet.
  bool pack(int64_t pair, int64_t first, int64_t count) {
    bool good = true;
    const int64_t from = std::max(packed_until_, first * s_.stride_h - s_.pad_top);
    const int64_t to = std::min(
        s_.h, (first + count - 1) * s_.stride_h - s_.pad_top + (s_.kh - 1) * s_.dilation_h + 1);
    for (int64_t h = from; h < to; ++h) {
      for (int64_t w = 0; w < s_.w; ++w) {
        good &= own_.kernels_->pack_inputs(
            pixels(call_.x, pair, s_.h * s_.w, h * s_.w + w, s_.c, 0),
            input_row(h) + w * own_.input_tiles_ * own_.kernels_->input_bytes);
      }
    }
    packed_until_ = std::max(packed_until_, to);
    const int64_t channel = tiles_.begin * own_.kernels_->outputs;
    const int64_t channels = std::min(s_.o, tiles_.end * own_.kernels_->outputs) - channel;
    for (int64_t i = 0; i < count * s_.q && channels > 0; ++i) {
      PixelPair pair_of = pixels(call_.dy, pair, s_.p * s_.q, first * s_.q + i, s_.o, channel);
      pair_of.channels = channels;
      good &= own_.kernels_->pack_outputs(
          pair_of, call_.db != nullptr ? bias_ + channel * kBlock : nullptr,
          outputs_ + i * (tiles_.end - tiles_.begin) * own_.kernels_->output_bytes);
    }
    return good;
  }

  void multiply(int64_t first, int64_t count, bool add) const {
    for (int64_t input = 0; input < own_.input_tiles_; ++input) {
      for (int64_t output = tiles_.begin; output < tiles_.end; ++output) {
        for (int64_t tap = 0; tap < own_.taps(); ++tap) {
          multiply_tile(first, count, input, output - tiles_.begin, tap, add);
        }
      }
    }
  }

  void multiply_tile(int64_t first, int64_t count, int64_t input, int64_t output, int64_t tap,
                     bool add) const {
    const int64_t row_offset = tap / s_.kw * s_.dilation_h - s_.pad_top;
    const int64_t column_offset = tap % s_.kw * s_.dilation_w - s_.pad_left;
    const Range columns = inside(s_.q, s_.w, s_.stride_w, column_offset);
    const char *dy[kMostChunkRows], *x[kMostChunkRows];
    GradientTile tile{};
    tile.dy = dy;
    tile.x = x;
    tile.dy_pixel = (tiles_.end - tiles_.begin) * own_.kernels_->output_bytes;
    tile.columns = columns.end - columns.begin;
    tile.x_pixel = s_.stride_w * own_.input_tiles_ * own_.kernels_->input_bytes;
    for (int64_t i = 0; i < count && tile.columns > 0; ++i) {
      const int64_t h = (first + i) * s_.stride_h + row_offset;
      if (h < 0 || h >= s_.h) continue;
      const int64_t column = columns.begin * s_.stride_w + column_offset;
      dy[tile.rows] = outputs_ + (i * s_.q + columns.begin) * tile.dy_pixel +
                      output * own_.kernels_->output_bytes;
      x[tile.rows++] =
          input_row(h) + (column * own_.input_tiles_ + input) * own_.kernels_->input_bytes;
    }
    tile.add = add;
    tile.sums =
        sums_ + ((output * own_.input_tiles_ + input) * own_.taps() + tap) * own_.tile_floats();
    own_.kernels_->add_products(tile);
  }

  const PackedGradient& own_;
  const ConvShape& s_;
  const Call& call_;
  Range rows_{}, tiles_{};
  int64_t packed_until_ = 0;  // input row, of the present pair
  char* inputs_;              // a ring of rows: [slot][column][input tile]
  char* outputs_;             // [row of the chunk][column][output tile]
  float* sums_;               // [output tile][input tile][tap][output][input]
  float* bias_;               // [output channel][kBlock]
};

PackedGradient::PackedGradient(const ConvShape& shape, int threads, const GradientKernels& kernels,
                               const KernelTable& exact)
    : shape_(shape),
      threads_(std::max(1, threads)),
      kernels_(&kernels),
      input_tiles_(divide_up(shape.c, kernels.inputs)),
      output_tiles_(divide_up(shape.o, kernels.outputs)),
      exact_(shape, threads, exact) {
  const int64_t enough = divide_up(kEnoughPixels, shape.q);
  const int64_t input = shape.stride_h * input_row_bytes(),
                output = shape.q * output_tiles_ * kernels.output_bytes;
  const int64_t ahead =
      ((shape.kh - 1) * shape.dilation_h + 1 - shape.stride_h) * input_row_bytes();
  const int64_t fitting = (kRowsBytes - ahead) / (input + output);
  chunk_ =
      std::clamp<int64_t>(std::max(enough, fitting), 1, std::min<int64_t>(shape.p, kMostChunkRows));
  double best = 0;
  for (int64_t outputs = 1; outputs <= std::min<int64_t>(threads_, output_tiles_); ++outputs) {
    if (threads_ % outputs != 0) continue;
    const Grid grid{threads_ / outputs, outputs};
    const double cost = member_cycles(grid);
    if (best == 0 || cost < best) best = cost, grid_ = grid;
  }
}

int64_t PackedGradient::member_outputs(const Grid& grid) const {
  return divide_up(output_tiles_, grid.output_parts);
}

double PackedGradient::member_cycles(const Grid& grid) const {
  const auto rows = static_cast<double>(divide_up(this->rows(), grid.row_parts));
  const auto outputs = static_cast<double>(member_outputs(grid));
  const auto inputs = static_cast<double>(input_tiles_);
  const auto pixels = rows * static_cast<double>(shape_.q);
  const double tiles = outputs * inputs * static_cast<double>(taps());
  const double input_pixels =
      rows * static_cast<double>(std::min(shape_.h, shape_.stride_h * shape_.p) * shape_.w) /
      static_cast<double>(shape_.p);
  const double registers = 2.0 * (input_pixels * inputs * static_cast<double>(kernels_->inputs) +
                                  pixels * outputs * static_cast<double>(kernels_->outputs));
  const double passes = rows / static_cast<double>(chunk_) + 1;
  return pixels * tiles * kernels_->step_cycles + registers * kernels_->pack_cycles +
         passes * tiles * static_cast<double>(tile_floats()) / 16 * kSumsLine;
}

double PackedGradient::cycles() const {
  return member_cycles(grid_) * static_cast<double>(threads_);
}

int64_t PackedGradient::slots() const {
  return std::min(shape_.h,
                  (chunk_ - 1) * shape_.stride_h + (shape_.kh - 1) * shape_.dilation_h + 1);
}

int64_t PackedGradient::input_row_bytes() const {
  return shape_.w * input_tiles_ * kernels_->input_bytes;
}

int64_t PackedGradient::output_row_bytes() const {
  return shape_.q * member_outputs(grid_) * kernels_->output_bytes;
}

int64_t PackedGradient::sums_bytes() const {
  return member_outputs(grid_) * input_tiles_ * taps() * tile_floats() * 4;
}

int64_t PackedGradient::member_bytes() const {
  return slots() * input_row_bytes() + kSlack + chunk_ * output_row_bytes() + kSlack +
         sums_bytes() + shape_.o * kBlock * 4;
}

uint64_t PackedGradient::workspace_bytes() const {
  return std::max(static_cast<uint64_t>(threads_ * member_bytes()), exact_.workspace_bytes());
}

// Adds the sums of all members for one tile, and writes them to dw [O,KH,KW,C].
void PackedGradient::finish_tile(const Call& call, int64_t output, int64_t input) const {
  // Rows of the grid differ in their pixels only.
  int64_t column = 0;
  while (output >= output_tiles_ * (column + 1) / grid_.output_parts) ++column;
  const int64_t outputs = std::min(kernels_->outputs, shape_.o - output * kernels_->outputs);
  const int64_t inputs = std::min(kernels_->inputs, shape_.c - input * kernels_->inputs);
  for (int64_t o = 0; o < outputs; ++o) {
    for (int64_t tap = 0; tap < taps(); ++tap) {
      float* to = call.dw + ((output * kernels_->outputs + o) * taps() + tap) * shape_.c +
                  input * kernels_->inputs;
      for (int64_t row = 0; row < grid_.row_parts; ++row) {
        const Member member(*this, call, row * grid_.output_parts + column);
        const float* from =
            member.sums() +
            (((output - member.tiles().begin) * input_tiles_ + input) * taps() + tap) *
                tile_floats() +
            o * kernels_->inputs;
        for (int64_t c = 0; c < inputs; ++c) {
          to[c] = (row == 0 ? 0.0f : to[c]) + from[c] * kernels_->unscale;
        }
      }
    }
  }
}

void PackedGradient::finish_bias(const Call& call) const {
  for (int64_t o = 0; o < shape_.o; ++o) {
    float total = 0;
    for (int64_t number = 0; number < threads_; ++number) {
      const float* lanes = Member(*this, call, number).bias() + o * kBlock;
      float sum = 0;
      for (int i = 0; i < kBlock; ++i) sum += lanes[i];
      total += sum;
    }
    call.db[o] = total;
  }
}

void PackedGradient::finish(const Call& call, int64_t part, int64_t parts) const {
  const int64_t tiles = output_tiles_ * input_tiles_;
  for (int64_t i = tiles * part / parts; i < tiles * (part + 1) / parts; ++i) {
    finish_tile(call, i / input_tiles_, i % input_tiles_);
  }
  if (call.db != nullptr && part == 0) finish_bias(call);
}

void PackedGradient::run(const float* x, const float* dy, float* dw, float* db,
                         void* workspace) const {
  const Call call{x, dy, dw, db, static_cast<char*>(workspace)};
  std::atomic<bool> good = true;
  run_parts(threads_, [&](int number) {
    if (!Member(*this, call, number).run()) good = false;
  });
  if (!good) return exact_.run(x, dy, dw, db, workspace);
  run_parts(threads_, [&](int part) { finish(call, part, threads_); });
}

}  // namespace backends::cpu::batch_blocked
