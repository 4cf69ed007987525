// Divides a product among threads, packs panels of columns, and multiplies blocks of rows by them.
#include "backends/cpu/products/product.h"

#include <algorithm>
#include <atomic>

#include "backends/cpu/divide.h"
#include "backends/cpu/parallel.h"

namespace backends::cpu::products {
namespace {

constexpr int64_t kPanelsAtOnce = 12;  // panels of columns after which finished rows are handed on
constexpr int64_t kLineBytes = 64;
// Depth that is packed at a time of a right operand stored by rows, so that whole rows are read.
constexpr int64_t kRowsAtOnce = 32;
// Bytes of the packed right operand of a thread, which it reads once for each block of rows.
constexpr int64_t kRightBytes = 6 << 20;
// Bytes of a small packed right operand, which leaves room for as many bytes of the left one in the
// second-level cache.
constexpr int64_t kSmallBytes = 640 << 10;

// The beginning of piece `i` of `pieces` pieces of `count` that differ by at most one.
int64_t piece(int64_t count, int64_t pieces, int64_t i) { return count * i / pieces; }

// The length of each block when `count` is cut into the fewest blocks of at most `most`, each a
// multiple of `step`.
int64_t even_block(int64_t count, int64_t most, int64_t step) {
  return std::min(most, round_up(divide_up(count, divide_up(count, most)), step));
}

}  // namespace

// How the parts of the threads are cut for the caches.
struct Product::Blocking {
  int64_t rows;                      // at most, of the left operand that is packed at a time
  int64_t depth;                     // at most, of either operand
  int64_t columns;                   // at most, of the right operand that is packed at a time
  uint64_t left_tile, right_panel;   // bytes of one packed tile
  uint64_t left_bytes, right_bytes;  // of all that are packed at a time
};

// The operands, and where they are packed: the right operand for each column of parts, then the
// left one for each part.
struct Product::Call {
  const Matrix& a;
  const Matrix& b;
  float* c;
  char* workspace;
  const Finish& finish;
};

// The rectangle of the result that one thread computes. The parts of the same columns share what
// they pack of the right operand: `share` of `shares` is packed by this one.
struct Product::Part {
  int number, share, shares, column_part;
  int64_t row, rows, column, columns;
};

// Some rows of the left operand, and the tiles that they are cut into.
struct Product::Rows {
  int64_t row, rows, tiles;
  // The first row of tile `t`, counted from `row`.
  int64_t tile(int64_t t) const { return piece(rows, tiles, t); }
};

// The columns (from the part's first) and the depth that are packed at present.
struct Product::Block {
  int64_t column, columns, deep, depth;
};

Product::Product(const KernelTable& kernels, const KernelTable& exact, const Sizes& sizes,
                 int threads)
    : kernels_(kernels), exact_(exact), sizes_(sizes), threads_(threads) {
  // Parts of the same rows pack the same left operand, and what they have of the right one is read
  // from a cache further away.
  double best = 0;
  for (int rows = 1; rows <= threads; ++rows) {
    if (threads % rows != 0) continue;
    const int columns = threads / rows;
    const int64_t height = round_up(divide_up(sizes.rows, rows), 4);
    const int64_t width = round_up(divide_up(sizes.columns, columns), kernels.columns);
    const double cost =
        static_cast<double>(width * height) *
        (1.0 + 12.0 / static_cast<double>(width) + 8.0 / static_cast<double>(height));
    if (best == 0 || cost < best) best = cost, row_parts_ = rows, column_parts_ = columns;
  }
}

Product::Blocking Product::blocking(const KernelTable& k) const {
  Blocking b{};
  // Each block of depth costs two barriers and a pass over the result. How depth is cut must not
  // depend on the number of threads.
  const bool small = sizes_.columns * sizes_.depth * k.bytes <= kSmallBytes;
  b.depth = even_block(sizes_.depth, small ? k.depth_if_small : k.depth_in_cache, kRowsAtOnce);
  const int64_t packed_depth = round_up(std::min(b.depth, sizes_.depth), k.depth_step);
  const int64_t row_bytes = std::max<int64_t>(1, packed_depth * k.bytes);
  const int64_t fitting_rows =
      b.depth > k.depth_in_cache ? kSmallBytes / row_bytes / k.rows * k.rows : k.rows_in_cache;
  b.rows = std::min(std::max(k.rows, fitting_rows), divide_up(sizes_.rows, row_parts_));
  // Kernels write up to a line behind what they pack.
  b.left_tile = static_cast<uint64_t>(round_up(k.rows * packed_depth * k.bytes, kLineBytes));
  b.right_panel =
      static_cast<uint64_t>(round_up(k.columns * packed_depth * k.bytes, kLineBytes) + kLineBytes);
  const int64_t panels = divide_up(divide_up(sizes_.columns, k.columns), column_parts_);
  const int64_t fitting = std::max<int64_t>(1, kRightBytes / static_cast<int64_t>(b.right_panel));
  b.columns = even_block(panels, fitting, 1) * k.columns;
  b.left_bytes = static_cast<uint64_t>(divide_up(b.rows, k.rows)) * b.left_tile + kLineBytes;
  b.right_bytes = static_cast<uint64_t>(b.columns / k.columns) * b.right_panel;
  return b;
}

uint64_t Product::workspace_bytes() const {
  uint64_t bytes = 0;
  for (const KernelTable* k : {&kernels_, &exact_}) {
    const Blocking b = blocking(*k);
    bytes = std::max(bytes, static_cast<uint64_t>(column_parts_) * b.right_bytes +
                                static_cast<uint64_t>(parts()) * b.left_bytes);
  }
  return bytes;
}

Product::Part Product::part(int number) const {
  const int row = number / column_parts_, column = number % column_parts_;
  const int64_t panels = divide_up(sizes_.columns, kernels_.columns);
  const int64_t top = piece(sizes_.rows, row_parts_, row);
  const int64_t left =
      std::min(sizes_.columns, piece(panels, column_parts_, column) * kernels_.columns);
  const int64_t right =
      std::min(sizes_.columns, piece(panels, column_parts_, column + 1) * kernels_.columns);
  return {number, row,         row_parts_,
          column, top,         piece(sizes_.rows, row_parts_, row + 1) - top,
          left,   right - left};
}

// Packs this part's share of the panels of a block.
bool Product::pack_right(const KernelTable& k, const Call& call, const Blocking& blocking,
                         const Part& part, const Block& block) const {
  const int64_t panels = divide_up(block.columns, k.columns);
  const int64_t begin = piece(panels, part.shares, part.share);
  const int64_t end = piece(panels, part.shares, part.share + 1);
  char* const packed =
      call.workspace + static_cast<uint64_t>(part.column_part) * blocking.right_bytes;
  const int64_t step = call.b.column == 1 ? kRowsAtOnce : block.depth;
  bool good = true;
  for (int64_t deep = 0; deep < block.depth; deep += step) {
    for (int64_t panel = begin; panel < end; ++panel) {
      const int64_t column = panel * k.columns;
      good &= k.pack_right(call.b.at(block.deep + deep, part.column + block.column + column),
                           std::min(step, block.depth - deep),
                           std::min(k.columns, block.columns - column),
                           packed + static_cast<uint64_t>(panel) * blocking.right_panel +
                               deep * k.columns * k.bytes);
    }
  }
  return good;
}

// Packs the tiles of some rows of the left operand.
bool Product::pack_left(const KernelTable& k, const Call& call, const Blocking& blocking,
                        const Rows& rows, const Block& block, char* left) const {
  for (int64_t t = 0; t < rows.tiles; ++t) {
    const int64_t from = rows.tile(t), to = rows.tile(t + 1);
    if (!k.pack_left(call.a.at(rows.row + from, block.deep), to - from, block.depth,
                     left + static_cast<uint64_t>(t) * blocking.left_tile)) {
      return false;
    }
  }
  return true;
}

// Multiplies packed rows by all packed panels, from those that this part packed on. While the first
// tiles of a panel are multiplied, the next one is asked for: the cache of another core may have
// it.
void Product::multiply_rows(const KernelTable& k, const Call& call, const Blocking& blocking,
                            const Part& part, const Rows& rows, const Block& block,
                            const char* left) const {
  const char* const right =
      call.workspace + static_cast<uint64_t>(part.column_part) * blocking.right_bytes;
  const bool finishes = call.finish && block.deep + block.depth == sizes_.depth;
  const int64_t panels = divide_up(block.columns, k.columns);
  const int64_t start = piece(panels, part.shares, part.share);
  const int64_t lines = rows.tiles == 1 ? 4 : rows.tiles < 4 ? 2 : 1;
  const auto ahead_bytes = static_cast<int64_t>(blocking.right_panel) * lines / 4;
  int64_t unfinished = start * k.columns;
  for (int64_t i = 0; i < panels; ++i) {
    const int64_t panel = (start + i) % panels, next = (panel + 1) % panels;
    const int64_t column = panel * k.columns, at = part.column + block.column + column;
    const int64_t columns = std::min(k.columns, block.columns - column);
    const char* const ahead = right + static_cast<uint64_t>(next) * blocking.right_panel;
    for (int64_t t = 0; t < rows.tiles; ++t) {
      const int64_t from = rows.tile(t), to = rows.tile(t + 1);
      k.multiply({left + static_cast<uint64_t>(t) * blocking.left_tile,
                  right + static_cast<uint64_t>(panel) * blocking.right_panel, block.depth,
                  call.c + (rows.row + from) * sizes_.columns + at, sizes_.columns, to - from,
                  columns, block.deep > 0, ahead + t * ahead_bytes,
                  t * lines < 4 && panels > 1 ? static_cast<int>(lines) : 0});
    }
    const int64_t end = column + columns;
    const bool hand_on =
        i + 1 == panels || end == block.columns || end - unfinished >= kPanelsAtOnce * k.columns;
    if (!finishes || !hand_on) continue;
    call.finish(rows.row, rows.rows, part.column + block.column + unfinished, end - unfinished);
    unfinished = next * k.columns;
  }
}

// Multiplies the part's rows by the packed columns.
bool Product::multiply(const KernelTable& k, const Call& call, const Blocking& blocking,
                       const Part& part, const Block& block) const {
  char* const left = call.workspace + static_cast<uint64_t>(column_parts_) * blocking.right_bytes +
                     static_cast<uint64_t>(part.number) * blocking.left_bytes;
  const int64_t blocks = divide_up(part.rows, blocking.rows);
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t begin = piece(part.rows, blocks, i),
                  count = piece(part.rows, blocks, i + 1) - begin;
    const Rows rows{part.row + begin, count, divide_up(count, k.rows)};
    if (!pack_left(k, call, blocking, rows, block, left)) return false;
    multiply_rows(k, call, blocking, part, rows, block, left);
  }
  return true;
}

bool Product::run(const KernelTable& k, const Call& call) const {
  const Blocking blocking = this->blocking(k);
  const int64_t widest =
      divide_up(divide_up(sizes_.columns, kernels_.columns), column_parts_) * kernels_.columns;
  std::atomic<bool> good = true;
  for (int64_t column = 0; column < widest; column += blocking.columns) {
    for (int64_t deep = 0; deep < sizes_.depth; deep += blocking.depth) {
      const auto for_parts = [&](auto work) {
        run_parts(parts(), [&](int number) {
          const Part part = this->part(number);
          const Block block{column, std::min(blocking.columns, part.columns - column), deep,
                            std::min(blocking.depth, sizes_.depth - deep)};
          if (!good || part.rows <= 0 || block.columns <= 0) return;
          if (k.begin != nullptr) k.begin();
          if (!work(part, block)) good = false;
          if (k.end != nullptr) k.end();
        });
      };
      for_parts([&](const Part& part, const Block& block) {
        return pack_right(k, call, blocking, part, block);
      });
      for_parts([&](const Part& part, const Block& block) {
        return multiply(k, call, blocking, part, block);
      });
    }
  }
  return good;
}

void Product::run(const Matrix& a, const Matrix& b, float* c, void* workspace,
                  const Finish& finish) const {
  const Call call{a, b, c, static_cast<char*>(workspace), finish};
  if (!run(kernels_, call)) run(exact_, call);
}

}  // namespace backends::cpu::products
