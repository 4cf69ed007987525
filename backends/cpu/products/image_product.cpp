// Reads patches of an image as rows of a matrix and multiplies them by packed weights, block by
// block.
#include "backends/cpu/products/image_product.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "backends/cpu/divide.h"
#include "backends/cpu/parallel.h"

namespace backends::cpu::products {
namespace {

// Rows that are packed at a time, with so many steps of depth or, if there are fewer rows, with
// more; and rows that are read in place, so that few lines of the image are split twice.
constexpr int64_t kPackedRows = 128, kPackedSteps = 32, kRowsInPlace = 256;
constexpr int64_t kSide = 16, kMostRows = 2 * kSide;  // rows of a hardware tile, and of a tile
constexpr int64_t kImagePanelsAtOnce = 12;            // after which finished rows are handed on
constexpr int64_t kStepsAhead = 3;  // from which weights are asked for that are read only once

uint64_t aligned(int64_t bytes) { return static_cast<uint64_t>(round_up(bytes, 64)); }

// The beginning of piece `i` of `pieces` pieces of `count`; all but the last are multiples of kSide
// long.
int64_t piece_of_tiles(int64_t count, int64_t pieces, int64_t i) {
  return std::min(count, divide_up(count, kSide) * i / pieces * kSide);
}

// The patches `begin` to `end` of one image, and the lines of the image that they read, some of
// which may lie in its padding.
struct Lines {
  int64_t image, begin, end, first, count;
};

// Calls body(lines) for each image that the patches `row` to `row + rows` read.
template <typename Body>
void for_images(const ImageSizes& s, int64_t row, int64_t rows, Body body) {
  const int64_t pixels = s.p * s.q;
  for (int64_t image = row / pixels; image * pixels < row + rows; ++image) {
    const int64_t begin = std::max(row - image * pixels, int64_t{0}),
                  end = std::min(row + rows - image * pixels, pixels);
    const int64_t lines = (end - 1) / s.q - begin / s.q;
    body(Lines{image, begin, end, begin / s.q * s.stride_h - s.pad_top,
               lines * s.stride_h + (s.kh - 1) * s.dilation_h + 1});
  }
}

}  // namespace

PackedWeights::PackedWeights(const SplitKernels& kernels, int64_t taps, int64_t c, int64_t o,
                             bool by_rows)
    : kernels_(kernels), taps_(taps), c_(c), o_(o), by_rows_(by_rows) {}

Matrix PackedWeights::matrix(const void* weights) const {
  const auto* data = static_cast<const float*>(weights);
  return by_rows_ ? Matrix{data, o_, 1} : Matrix{data, 1, taps_ * c_};
}

void PackedWeights::pack(const float* weights, void* packed, int threads) const {
  const int64_t columns = kernels_.table->columns;
  std::atomic<bool> good = true;
  parallel_units(threads, panels(), [&](int64_t p) {
    for (int64_t tap = 0; tap < taps_; ++tap) {
      char* to = const_cast<char*>(panel(packed, p)) +
                 static_cast<uint64_t>(tap * steps_of_tap()) * step_bytes();
      if (!kernels_.table->pack_right(matrix(weights).at(tap * c_, p * columns), c_,
                                      std::min(columns, o_ - p * columns), to)) {
        good = false;
      }
    }
  });
  std::memset(packed, 0, kHead);
  if (good) return;
  *static_cast<int64_t*>(packed) = 1;
  std::memcpy(static_cast<char*>(packed) + kHead, weights,
              static_cast<size_t>(taps_ * c_ * o_) * sizeof(float));
}

void PackedWeights::numbers(const void* packed, int64_t number, const KernelTable& exact,
                            float* to) const {
  if (is_split(packed)) return kernels_.join(panel(packed, number), steps(), to);
  const Matrix m = matrix(panel(packed, 0));
  const int64_t columns = kernels_.table->columns, padded = steps_of_tap() * kernels_.step;
  const int64_t here = std::min(columns, o_ - number * columns);
  for (int64_t tap = 0; tap < taps_; ++tap, to += padded * columns) {
    exact.pack_right(m.at(tap * c_, number * columns), c_, here, to);
    std::fill(to + c_ * columns, to + padded * columns, 0.0F);
  }
}

struct ImageProduct::Job {
  Part part;
  const float* x;
  const void* packed;
  float* y;
  char* memory;
  const Finish* finish;
};

struct ImageProduct::Block {
  int64_t row, rows;
  const char* places[kRowsInPlace];  // of the first tap of each row

  int64_t tiles() const { return divide_up(rows, kMostRows); }
  int64_t rows_of(int64_t tile) const { return std::min(kMostRows, rows - tile * kMostRows); }
};

ImageProduct::ImageProduct(const SplitKernels& kernels, const KernelTable& exact,
                           const ImageSizes& sizes, const PackedWeights& weights, int threads)
    : kernels_(kernels), exact_(exact), sizes_(sizes), weights_(weights) {
  const ImageSizes& s = sizes_;
  is_matrix_ = s.taps() == 1 && s.p == s.h && s.q == s.w && s.pad_top == 0 && s.pad_left == 0 &&
               s.stride_h == 1 && s.stride_w == 1;
  in_place_ = !is_matrix_ && s.q % kSide == 0;
  line_pixels_ = std::max(s.pad_left + s.w, (s.q - 1) * s.stride_w + (s.kw - 1) * s.dilation_w + 1);
  for (int64_t tap = 0; tap < s.taps(); ++tap) taps_.push_back(tap_offset(tap));
  // The depth of a block depends on no number of threads, because sums of blocks are rounded.
  rows_at_once_ = in_place_ ? kRowsInPlace : kPackedRows;
  const int64_t height = std::min(rows_at_once_, round_up(s.rows(), kMostRows));
  const int64_t most = kPackedSteps * kPackedRows / height;
  steps_at_once_ =
      in_place_ ? weights.steps() : divide_up(weights.steps(), divide_up(weights.steps(), most));
  // Threads beside each other read the same rows, and threads above each other the same weights.
  double best = 0;
  for (int above = 1; above <= threads; ++above) {
    if (threads % above != 0) continue;
    const auto rows = static_cast<double>(round_up(divide_up(s.rows(), above), kSide)),
               width = static_cast<double>(divide_up(weights.panels(), threads / above) *
                                           kernels.table->columns);
    const double cost = rows * width * (1 + 8 / width + 16 / rows);
    if (best == 0 || cost < best) best = cost, row_parts_ = above, column_parts_ = threads / above;
  }
  for (int i = 0; i < parts() && !is_matrix_; i += column_parts_) {
    const Part own = part(i);
    for (int64_t row = 0; row < own.rows; row += rows_at_once_) {
      left_ = std::max(left_, image_bytes(own.row + row, std::min(rows_at_once_, own.rows - row)));
    }
  }
  const int64_t depth = weights.steps() * kernels.step;
  const uint64_t whole =
      left_ + (in_place_ ? 0 : aligned(height * steps_at_once_ * kernels.step_bytes));
  const uint64_t exactly =
      aligned(depth * kernels.table->columns * 4) + 2 * (aligned(exact.rows * depth * 4) + 64);
  part_bytes_ = std::max(whole, exactly);
}

ImageProduct::Part ImageProduct::part(int number) const {
  const int row = number / column_parts_, column = number % column_parts_;
  const int64_t top = piece_of_tiles(sizes_.rows(), row_parts_, row),
                left = weights_.panels() * column / column_parts_;
  return {top, piece_of_tiles(sizes_.rows(), row_parts_, row + 1) - top, left,
          weights_.panels() * (column + 1) / column_parts_ - left};
}

uint64_t ImageProduct::image_bytes(int64_t row, int64_t rows) const {
  int64_t lines = 0;
  for_images(sizes_, row, rows, [&](const Lines& l) { lines += l.count; });
  return static_cast<uint64_t>(lines * line_pixels_ * pixel_bytes());
}

int64_t ImageProduct::tap_offset(int64_t tap) const {
  return (tap / sizes_.kw * sizes_.dilation_h * line_pixels_ +
          tap % sizes_.kw * sizes_.dilation_w) *
         pixel_bytes();
}

void ImageProduct::run(const float* x, const void* packed, float* y, void* workspace,
                       const Finish& finish) const {
  const auto work = [&](int number) {
    const Part own = part(number);
    if (own.rows <= 0 || own.panels <= 0) return;
    auto* memory = static_cast<char*>(workspace) + static_cast<uint64_t>(number) * part_bytes_;
    const Job job{own, x, packed, y, memory, finish ? &finish : nullptr};
    if (!PackedWeights::is_split(packed) || !run_part(job)) run_exactly(job);
  };
  run_parts(parts(), work);
}

// Splits the pixels that the patches of these rows read, with zeros for the padding.
bool ImageProduct::split_image(const Job& job, Block& block) const {
  const ImageSizes& s = sizes_;
  const int64_t bytes = pixel_bytes(), line_bytes = line_pixels_ * bytes;
  const auto zeros = [&](char* to, int64_t pixels) {
    if (pixels > 0) std::memset(to, 0, static_cast<size_t>(pixels * bytes));
  };
  char* to = job.memory;
  bool good = true;
  for_images(s, block.row, block.rows, [&](const Lines& l) {
    for (int64_t r = l.begin; r < l.end; ++r) {
      block.places[l.image * s.p * s.q + r - block.row] =
          to + (r / s.q - l.begin / s.q) * s.stride_h * line_bytes + r % s.q * s.stride_w * bytes;
    }
    for (int64_t y = l.first; y < l.first + l.count; ++y, to += line_bytes) {
      const bool inside = y >= 0 && y < s.h;
      zeros(to, inside ? s.pad_left : line_pixels_);
      if (!inside) continue;
      const float* from = job.x + (l.image * s.h + y) * s.w * s.c;
      char* pixel = to + s.pad_left * bytes;
      for (int64_t i = 0; i < s.w; ++i, from += s.c, pixel += bytes)
        good &= kernels_.split(from, s.c, pixel);
      zeros(pixel, line_pixels_ - s.pad_left - s.w);
    }
  });
  return good;
}

// Packs rows with these steps of their depth.
bool ImageProduct::pack_left(const Job& job, const Block& block, int64_t step,
                             int64_t steps) const {
  const int64_t tile_bytes = kMostRows * steps * kernels_.step_bytes;
  char* const left = job.memory + left_;
  bool good = true;
  for (int64_t t = 0; t < block.tiles() && is_matrix_; ++t) {
    const int64_t depth = std::min(steps * kernels_.step, sizes_.c - step * kernels_.step);
    const float* data = job.x + (block.row + t * kMostRows) * sizes_.c + step * kernels_.step;
    good &= kernels_.table->pack_left({data, sizes_.c, 1}, block.rows_of(t), depth,
                                      left + t * tile_bytes);
  }
  const int64_t in_tap = weights_.steps_of_tap();
  for (int64_t done = 0, count = 0; done < steps && !is_matrix_; done += count) {
    const int64_t tap = (step + done) / in_tap, inner = (step + done) % in_tap;
    count = std::min(in_tap - inner, steps - done);
    for (int64_t t = 0; t < block.tiles(); ++t) {
      const char* pieces[kMostRows];
      for (int64_t r = 0; r < block.rows_of(t); ++r) {
        pieces[r] = block.places[t * kMostRows + r] + taps_[static_cast<size_t>(tap)] +
                    inner * kernels_.step_bytes;
      }
      kernels_.gather(pieces, block.rows_of(t), count,
                      left + t * tile_bytes + done * kMostRows * kernels_.step_bytes);
    }
  }
  return good;
}

// Multiplies rows by all panels of the part, and hands finished panels on.
void ImageProduct::multiply(const Job& job, const Block& block, int64_t step, int64_t steps) const {
  const int64_t width = kernels_.table->columns, tiles = block.tiles();
  const auto step_bytes = static_cast<int64_t>(weights_.step_bytes());
  static constexpr int64_t kOneTap = 0;
  SplitTile tile{};
  tile.c_row = sizes_.o;
  tile.add = step > 0;
  tile.taps = in_place_ ? taps_.data() : &kOneTap;
  tile.tap_count = in_place_ ? sizes_.taps() : 1;
  tile.steps = steps / tile.tap_count;
  tile.row_bytes = in_place_ ? sizes_.stride_w * pixel_bytes() : 64;
  tile.step_bytes = in_place_ ? kernels_.step_bytes : step_bytes;
  tile.part_bytes = in_place_ ? 64 : step_bytes / 3;
  // Weights that only one tile reads are asked for a little before they are read, others while the
  // first tiles of the panel before are multiplied.
  const int lines = tiles == 1 ? 4 : tiles < 4 ? 2 : 1;
  const int64_t end = job.part.panel + job.part.panels;
  int64_t finished = job.part.panel * width;
  for (int64_t p = job.part.panel; p < end; ++p) {
    const int64_t column = p * width;
    tile.columns = std::min(width, sizes_.o - column);
    tile.right = weights_.panel(job.packed, p) + step * step_bytes;
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t row = t * kMostRows;
      for (int64_t half = 0; half < 2; ++half) {
        tile.left[half] = in_place_ ? block.places[std::min(row + half * kSide, block.rows - 1)]
                                    : job.memory + left_ + t * steps * step_bytes + half * 1024;
      }
      tile.rows = block.rows_of(t);
      tile.c = job.y + (block.row + row) * sizes_.o + column;
      tile.lines = t * lines < 4 ? lines : 0;
      tile.ahead = static_cast<const char*>(tile.right) +
                   (tiles == 1 ? kStepsAhead * step_bytes
                               : static_cast<int64_t>(weights_.panel_bytes()) +
                                     t * lines * steps * step_bytes / 4);
      kernels_.multiply(tile);
    }
    const bool hand_on = p + 1 == end || column + width - finished >= kImagePanelsAtOnce * width;
    if (job.finish == nullptr || !hand_on || step + steps < weights_.steps()) continue;
    (*job.finish)(block.row, block.rows, finished, column + tile.columns - finished);
    finished = column + width;
  }
}

bool ImageProduct::run_block(const Job& job, Block& block) const {
  if (!is_matrix_ && !split_image(job, block)) return false;
  for (int64_t step = 0; step < weights_.steps(); step += steps_at_once_) {
    const int64_t steps = std::min(steps_at_once_, weights_.steps() - step);
    if (!in_place_ && !pack_left(job, block, step, steps)) return false;
    multiply(job, block, step, steps);
  }
  return true;
}

bool ImageProduct::run_part(const Job& job) const {
  kernels_.table->begin();
  bool good = true;
  for (int64_t done = 0; done < job.part.rows && good; done += rows_at_once_) {
    Block block;
    block.row = job.part.row + done;
    block.rows = std::min(rows_at_once_, job.part.rows - done);
    good = run_block(job, block);
  }
  kernels_.table->end();
  return good;
}

// Writes the patch of one row, with the channels of a tap filled up to whole steps.
void ImageProduct::read_patch(const float* image, int64_t row, float* to) const {
  const ImageSizes& s = sizes_;
  const int64_t n = row / (s.p * s.q), pixel = row % (s.p * s.q);
  const int64_t padded = weights_.steps_of_tap() * kernels_.step;
  for (int64_t tap = 0; tap < s.taps(); ++tap, to += padded) {
    const int64_t y = pixel / s.q * s.stride_h - s.pad_top + tap / s.kw * s.dilation_h,
                  x = pixel % s.q * s.stride_w - s.pad_left + tap % s.kw * s.dilation_w;
    std::fill(to, to + padded, 0.0F);
    if (y < 0 || y >= s.h || x < 0 || x >= s.w) continue;
    std::copy_n(image + ((n * s.h + y) * s.w + x) * s.c, s.c, to);
  }
}

void ImageProduct::run_exactly(const Job& job) const {
  const int64_t depth = weights_.steps() * kernels_.step, width = kernels_.table->columns;
  auto* const right = reinterpret_cast<float*>(job.memory);
  auto* const patches = right + aligned(depth * width * 4) / 4;
  auto* const left = patches + aligned(exact_.rows * depth * 4) / 4 + 16;
  for (int64_t p = job.part.panel; p < job.part.panel + job.part.panels; ++p) {
    const int64_t column = p * width, columns = std::min(width, sizes_.o - column);
    weights_.numbers(job.packed, p, exact_, right);
    for (int64_t done = 0; done < job.part.rows; done += exact_.rows) {
      const int64_t row = job.part.row + done, rows = std::min(exact_.rows, job.part.rows - done);
      for (int64_t r = 0; r < rows; ++r) read_patch(job.x, row + r, patches + r * depth);
      exact_.pack_left({patches, depth, 1}, rows, depth, left);
      exact_.multiply({left, right, depth, job.y + row * sizes_.o + column, sizes_.o, rows, columns,
                       false, nullptr, 0});
      if (job.finish != nullptr) (*job.finish)(row, rows, column, columns);
    }
  }
}

}  // namespace backends::cpu::products
