// Divides a weight gradient among threads by tiles of dw and, where these are too few, by samples.
#include "backends/cpu/batch_blocked/weight_gradient.h"

#include <algorithm>
#include <limits>

#include "backends/cpu/parallel.h"

namespace backends::cpu::batch_blocked {

namespace {

// The parts of x and dy that the taps of one tile read should stay in the second-level cache.
constexpr int64_t kSliceBytes = 128 * 1024;
// The most bytes of accumulators that are kept from one chunk of samples to the next. If more were
// needed, each tile processes all samples at once.
constexpr int64_t kKeptBytes = 16 << 20;
// The largest thread's work may exceed the mean by this factor before samples are divided among
// threads as well.
constexpr double kImbalance = 1.15;
constexpr int kMaxTileVectors = 64;
constexpr int64_t kPageBytes = 4096;

}  // namespace

// The work of one thread: tiles tile_begin..tile_end over sample blocks block_begin..block_end,
// whose sums go to the copy number `group`.
struct WeightGradient::Share {
  int64_t group, tile_begin, tile_end, block_begin, block_end;
};

double pixel_cycles(const WeightKernel& k) {
  const int products = k.outputs * k.rows * k.columns * k.inputs;
  const int loads = k.outputs + k.rows * k.inputs;
  // With few accumulators, a product waits for the latency of 4 cycles. Some of the loads are not
  // hidden behind products.
  return std::max({static_cast<double>(products), 4.0, 1.2 * loads}) + 0.15 * loads;
}

WeightGradient::WeightGradient(const ConvShape& shape, int threads, const KernelTable& kernels)
    : shape_(shape), threads_(std::max(1, threads)), kernels_(&kernels) {
  choose_kernel(kernels);
  choose_split();
  const int64_t rest = shape.n % kBlock;
  for (int i = 0; i < kBlock; ++i) mask_[i] = rest == 0 || i < rest ? -1 : 0;
}

void WeightGradient::choose_kernel(const KernelTable& kernels) {
  double best = std::numeric_limits<double>::infinity();
  for (int32_t i = 0; i < kernels.weights_count; ++i) {
    const WeightKernel& k = kernels.weights[i];
    const bool slides = k.columns > 1;
    if (slides && (shape_.kw != k.columns || shape_.kh % k.rows != 0 || shape_.stride_w != 1 ||
                   shape_.dilation_w != 1)) {
      continue;
    }
    if (k.outputs > shape_.o || k.inputs > shape_.c) continue;
    const int64_t o = divide_up(shape_.o, k.outputs), c = divide_up(shape_.c, k.inputs);
    const int64_t kh = shape_.kh / k.rows, kw = shape_.kw / k.columns;
    const double cycles = pixel_cycles(k);
    const double cost = static_cast<double>(o * c * kh * kw) * cycles;
    if (cost < best) {
      best = cost;
      kernel_ = &k;
      pixel_cycles_ = cycles;
      o_tiles_ = o, c_tiles_ = c, kh_tiles_ = kh, kw_tiles_ = kw;
    }
  }
  tiles_ = o_tiles_ * c_tiles_ * kh_tiles_ * kw_tiles_;
}

void WeightGradient::choose_split() {
  const int64_t blocks = sample_blocks(shape_.n);
  for (groups_ = 1; groups_ < threads_ && groups_ < blocks; ++groups_) {
    const int64_t members = divide_up(threads_, groups_);
    const double largest =
        static_cast<double>(divide_up(tiles_, members)) * divide_up(blocks, groups_);
    if (largest * threads_ <= kImbalance * static_cast<double>(tiles_ * blocks)) break;
  }
  const int64_t slice =
      (shape_.p * shape_.q * kernel_->outputs + shape_.h * shape_.w * kernel_->inputs) * kBlock * 4;
  const int64_t chunks = divide_up(blocks, std::clamp<int64_t>(kSliceBytes / slice, 1, blocks));
  chunk_ = divide_up(blocks, chunks);
  keeps_all_ = chunk_ < blocks;
  if (keeps_all_ && groups_ * tiles_ * acc_floats() * 4 > kKeptBytes) {
    chunk_ = blocks;
    keeps_all_ = false;
  }
}

double WeightGradient::cycles() const {
  const double row = static_cast<double>(shape_.q) * pixel_cycles_ + 20 + 3 * kernel_->columns;
  const auto tile_blocks = static_cast<double>(tiles_ * sample_vectors(shape_.n, *kernels_));
  // Where pixels are whole pages apart, those of an image fall into so few sets of the caches that
  // they do not stay there. Measured: twice the time with 64 and 128 channels on Sapphire Rapids.
  const auto whole_pages = [](int64_t channels) { return channels * kBlock * 4 % kPageBytes == 0; };
  const bool collides = whole_pages(shape_.c) || whole_pages(shape_.o);
  return (collides ? 2.0 : 1.0) * tile_blocks * (static_cast<double>(shape_.p) * row + 150);
}

// Rounded up to whole groups of kBlock vectors, as sum_lanes needs them.
int64_t WeightGradient::acc_floats() const {
  const int64_t vectors = static_cast<int64_t>(kernel_->outputs) *
                          (kernel_->rows * kernel_->columns * kernel_->inputs + 1);
  return divide_up(vectors, kBlock) * kBlock * kBlock;
}

int64_t WeightGradient::bias_vector() const {
  return static_cast<int64_t>(kernel_->outputs) * kernel_->rows * kernel_->columns *
         kernel_->inputs;
}

uint64_t WeightGradient::workspace_bytes() const {
  const int64_t acc = (keeps_all_ ? groups_ * tiles_ : threads_) * acc_floats();
  return static_cast<uint64_t>(acc + (groups_ > 1 ? groups_ * result_floats() : 0)) * sizeof(float);
}

// Filter rows are the innermost index, because they read the same parts of x and dy.
WeightGradient::Tile WeightGradient::tile(int64_t index) const {
  Tile t{};
  t.kh = index % kh_tiles_ * kernel_->rows;
  index /= kh_tiles_;
  t.kw = index % kw_tiles_ * kernel_->columns;
  index /= kw_tiles_;
  t.first_c = index % c_tiles_ * kernel_->inputs;
  t.first_o = index / c_tiles_ * kernel_->outputs;
  t.c = std::min<int64_t>(t.first_c, shape_.c - kernel_->inputs);
  t.o = std::min<int64_t>(t.first_o, shape_.o - kernel_->outputs);
  return t;
}

WeightGradient::Share WeightGradient::share(int64_t part, int64_t parts) const {
  const int64_t groups = std::min(groups_, parts);
  const int64_t group = part * groups / parts;
  const int64_t first = divide_up(group * parts, groups),
                next = divide_up((group + 1) * parts, groups);
  const int64_t members = next - first, member = part - first;
  const int64_t blocks = sample_blocks(shape_.n);
  return {group, tiles_ * member / members, tiles_ * (member + 1) / members,
          blocks * group / groups, blocks * (group + 1) / groups};
}

WeightTile WeightGradient::weight_tile(const Tile& at, float* acc, bool bias) const {
  WeightTile t{};
  t.acc = acc;
  t.bias = bias ? acc + bias_vector() * kBlock : nullptr;
  t.row_end = static_cast<int32_t>(shape_.p);
  t.out_width = static_cast<int32_t>(shape_.q);
  t.height = static_cast<int32_t>(shape_.h);
  t.width = static_cast<int32_t>(shape_.w);
  t.x_pixel = static_cast<int32_t>(shape_.c * kBlock);
  t.dy_pixel = static_cast<int32_t>(shape_.o * kBlock);
  t.stride_h = static_cast<int32_t>(shape_.stride_h);
  t.stride_w = static_cast<int32_t>(shape_.stride_w);
  t.dilation_h = static_cast<int32_t>(shape_.dilation_h);
  t.dilation_w = static_cast<int32_t>(shape_.dilation_w);
  t.top = static_cast<int32_t>(at.kh * shape_.dilation_h - shape_.pad_top);
  t.left = static_cast<int32_t>(at.kw * shape_.dilation_w - shape_.pad_left);
  return t;
}

void WeightGradient::accumulate(const Tile& at, const float* x, const float* dy,
                                int64_t block_begin, int64_t block_end, float* acc,
                                bool bias) const {
  const int64_t x_block = shape_.h * shape_.w * shape_.c * kBlock;
  const int64_t dy_block = shape_.p * shape_.q * shape_.o * kBlock;
  WeightTile t = weight_tile(at, acc, bias);
  for (int64_t block = block_begin; block < block_end; ++block) {
    t.lane_mask = lane_mask(block);
    t.x = x + block * x_block + at.c * kBlock;
    t.dy = dy + block * dy_block + at.o * kBlock;
    kernel_->kernel(t);
  }
}

void WeightGradient::add_rows(const float* x, const float* dy_rows, int64_t block, int64_t begin,
                              int64_t end, float* sums) const {
  const float* const x_block = x + block * shape_.h * shape_.w * shape_.c * kBlock;
  const float* const dy_block = dy_rows - begin * shape_.q * shape_.o * kBlock;
  for (int64_t i = 0; i < tiles_; ++i) {
    const Tile at = tile(i);
    WeightTile t = weight_tile(at, sums + i * acc_floats(), has_bias(at));
    t.row_begin = static_cast<int32_t>(begin);
    t.row_end = static_cast<int32_t>(end);
    t.lane_mask = lane_mask(block);
    t.x = x_block + at.c * kBlock;
    t.dy = dy_block + at.o * kBlock;
    kernel_->kernel(t);
  }
}

void WeightGradient::add_windows(const float* x, const float* dy, const uint16_t* saved,
                                 int64_t block, int64_t begin, int64_t end, float* sums) const {
  const int64_t rows = shape_.p / 2, columns = shape_.q / 2;
  const float* const x_block = x + block * shape_.h * shape_.w * shape_.c * kBlock;
  const float* const dy_block = dy + block * rows * columns * shape_.o * kBlock;
  for (int64_t i = 0; i < tiles_; ++i) {
    const Tile at = tile(i);
    WeightTile t = weight_tile(at, sums + i * acc_floats(), has_bias(at));
    t.row_begin = static_cast<int32_t>(2 * begin);
    t.row_end = static_cast<int32_t>(2 * end);
    t.out_width = static_cast<int32_t>(2 * columns);
    t.lane_mask = lane_mask(block);
    t.x = x_block + at.c * kBlock;
    t.dy = dy_block + at.o * kBlock;
    t.passes_pixel = static_cast<int32_t>(4 * shape_.o);
    t.passes = saved + (block * rows * columns * shape_.o + at.o) * 4;
    kernel_->pooled_kernel(t);
  }
}

void WeightGradient::write_sums(const float* sums, float* dw, float* db) const {
  for (int64_t i = 0; i < tiles_; ++i) write(tile(i), sums + i * acc_floats(), dw, db);
}

void WeightGradient::write(const Tile& at, const float* acc, float* dw, float* db) const {
  const int64_t ot = kernel_->outputs, rows = kernel_->rows, columns = kernel_->columns;
  const int64_t ct = kernel_->inputs;
  alignas(64) float sums[kMaxTileVectors];
  kernels_->sum_lanes(acc, sums, acc_floats() / kBlock);
  for (int64_t o = at.first_o - at.o; o < ot; ++o) {
    for (int64_t tap = 0; tap < rows * columns; ++tap) {
      const int64_t kh = at.kh + tap / columns, kw = at.kw + tap % columns;
      float* to = dw + (((at.o + o) * shape_.kh + kh) * shape_.kw + kw) * shape_.c + at.c;
      const float* from = sums + (o * rows * columns + tap) * ct;
      for (int64_t c = at.first_c - at.c; c < ct; ++c) to[c] = from[c];
    }
    if (has_bias(at) && db) db[at.o + o] = sums[bias_vector() + o];
  }
}

void WeightGradient::run_share(const Share& s, const float* x, const float* dy, float* dw,
                               float* db, float* acc) const {
  for (int64_t begin = s.block_begin; begin < s.block_end; begin += chunk_) {
    const int64_t end = std::min(s.block_end, begin + chunk_);
    for (int64_t i = s.tile_begin; i < s.tile_end; ++i) {
      const Tile at = tile(i);
      float* tile_acc = keeps_all_ ? acc + (i - s.tile_begin) * acc_floats() : acc;
      if (begin == s.block_begin) std::fill(tile_acc, tile_acc + acc_floats(), 0.0f);

      accumulate(at, x, dy, begin, end, tile_acc, db && has_bias(at));
      if (end == s.block_end) write(at, tile_acc, dw, db);
    }
  }
}

void WeightGradient::run(const float* x, const float* dy, float* dw, float* db,
                         void* workspace) const {
  auto* acc = static_cast<float*>(workspace);
  float* const copies = acc + (keeps_all_ ? groups_ * tiles_ : threads_) * acc_floats();
  const int64_t weights = shape_.o * shape_.kh * shape_.kw * shape_.c;
  run_parts(threads_, [&](int part) {
    const Share s = share(part, threads_);
    const int64_t slot = keeps_all_ ? s.group * tiles_ + s.tile_begin : part;
    float* const to = groups_ > 1 ? copies + s.group * result_floats() : dw;
    float* const bias = !db ? nullptr : groups_ > 1 ? to + weights : db;
    run_share(s, x, dy, to, bias, acc + slot * acc_floats());
  });
  if (groups_ == 1) return;
  const int64_t groups = std::min<int64_t>(groups_, threads_);
  parallel_for(threads_, db ? result_floats() : weights, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float sum = copies[i];
      for (int64_t g = 1; g < groups; ++g) sum += copies[g * result_floats() + i];
      (i < weights ? dw[i] : db[i - weights]) = sum;
    }
  });
}

}  // namespace backends::cpu::batch_blocked
