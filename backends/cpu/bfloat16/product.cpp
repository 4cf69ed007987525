// Packs both operands of a bfloat16 product, and multiplies them block by block on all threads.
#include "backends/cpu/bfloat16/product.h"

#include <algorithm>

#include "backends/cpu/divide.h"
#include "backends/cpu/parallel.h"

namespace backends::cpu::bfloat16 {
namespace {

// The depth (elements of a sum) that is multiplied before the next tile of rows is: a panel of the
// right operand of this depth fills 2/3 of the first-level cache.
constexpr int64_t kDepthInCache = 512;
// A block of packed rows of the left operand has at most this many bytes, so that it stays in the
// second-level cache while all panels of the right operand pass by; and at most and at least this
// many rows.
constexpr int64_t kLeftBytes = 1 << 20;
constexpr int64_t kMostRows = 512, kLeastRows = 2 * kTileSide;
// Columns of the result that are computed before they are given to `finish`, as one block.
constexpr int64_t kGroup = 8 * kTileSide;
// Panels of the right operand that one call of MatrixUnit::pack_right packs.
constexpr int64_t kPanelsAtOnce = 8;

// The beginning of piece `i` of `pieces` pieces of `count` that differ by at most one.
int64_t piece(int64_t count, int64_t pieces, int64_t i) { return count * i / pieces; }

}  // namespace

Product::Product(const MatrixUnit& unit, const Sizes& sizes, int threads, bool row_sums)
    : unit_(unit), sizes_(sizes), row_sums_(row_sums) {
  // Every thread packs its rows by itself, so a part should not be narrow.
  double best = 0;
  for (int rows = 1; rows <= threads; ++rows) {
    if (threads % rows != 0) continue;
    const int columns = threads / rows;
    const int64_t height = round_up(divide_up(sizes.rows, rows), kTileSide);
    const int64_t width = round_up(divide_up(sizes.columns, columns), kTileSide);
    const double cost =
        static_cast<double>(width * height) *
        (1.0 + 32.0 / static_cast<double>(width) + 32.0 / static_cast<double>(height));
    if (best == 0 || cost < best) best = cost, row_parts_ = rows, column_parts_ = columns;
  }
  const int64_t part_rows = round_up(divide_up(sizes.rows, row_parts_), kTileSide) + kTileSide;
  const int64_t fitting = kLeftBytes / packed_bytes(sizes.depth) * kTileSide;
  block_rows_ = std::min(part_rows, std::clamp(fitting, kLeastRows, kMostRows));
  part_bytes_ = static_cast<uint64_t>(block_rows_ / kTileSide * packed_bytes(sizes.depth) +
                                      packed_bytes(kDepthInCache) + block_rows_ * kGroup * 4);
}

Product::Part Product::part(int number) const {
  const int row = number / column_parts_, column = number % column_parts_;
  const auto cut = [](int64_t count, int parts, int i) {
    return std::min(count, piece(divide_up(count, kTileSide), parts, i) * kTileSide);
  };
  const int64_t top = cut(sizes_.rows, row_parts_, row),
                left = cut(sizes_.columns, column_parts_, column),
                right = cut(sizes_.columns, column_parts_, column + 1);
  const int64_t panels = divide_up(right - left, kTileSide);
  const int64_t first = piece(panels, row_parts_, row);
  return {top,
          cut(sizes_.rows, row_parts_, row + 1) - top,
          left,
          right - left,
          left / kTileSide + first,
          piece(panels, row_parts_, row + 1) - first};
}

uint64_t Product::right_bytes() const {
  return static_cast<uint64_t>(divide_up(sizes_.columns, kTileSide) * packed_bytes(sizes_.depth));
}

Product::Memory Product::memory(void* workspace, int number) const {
  char* const right = static_cast<char*>(workspace);
  char* const left = right + right_bytes() + static_cast<uint64_t>(number) * part_bytes_;
  char* const values = left + block_rows_ / kTileSide * packed_bytes(sizes_.depth);
  return {left, right, reinterpret_cast<float*>(values)};
}

void Product::run(const Matrix& a, const Matrix& b, float* sums, void* workspace,
                  const Finish& finish) const {
  const auto multiply = [&](int number) {
    const Part own = part(number);
    if (own.rows <= 0 || own.columns <= 0) return;
    run_part(own, a, own.column == 0 ? sums : nullptr, memory(workspace, number), finish);
  };
  if (parts() == 1) {
    pack_right(part(0), b, memory(workspace, 0));
    return multiply(0);
  }
  run_parts(parts(), [&](int number) { pack_right(part(number), b, memory(workspace, number)); });
  run_parts(parts(), multiply);
}

void Product::pack_right(const Part& part, const Matrix& b, const Memory& memory) const {
  const int64_t end = part.panel + part.panels;
  for (int64_t panel = part.panel; panel < end; panel += kPanelsAtOnce) {
    const int64_t column = panel * kTileSide;
    const int64_t last = std::min(sizes_.columns, std::min(end, panel + kPanelsAtOnce) * kTileSide);
    unit_.pack_right(b.at(0, column), sizes_.depth, last - column,
                     memory.right + panel * packed_bytes(sizes_.depth));
  }
}

void Product::run_part(const Part& part, const Matrix& a, float* sums, const Memory& memory,
                       const Finish& finish) const {
  const int64_t blocks = divide_up(part.rows, block_rows_);
  const int64_t block = round_up(divide_up(part.rows, blocks), kTileSide);
  unit_.begin();
  for (int64_t row = 0; row < part.rows; row += block) {
    const int64_t rows = std::min(block, part.rows - row);
    unit_.pack_left(a.at(part.row + row, 0), rows, sizes_.depth, memory.left);
    if (row_sums_ && sums != nullptr) sum_rows(memory, rows, sums + part.row + row);
    for (int64_t group = 0; group < part.columns; group += kGroup) {
      const int64_t columns = std::min(kGroup, part.columns - group), column = part.column + group;
      for (int64_t c = 0; c < columns; c += kTileSide) {
        const int64_t panel = (column + c) / kTileSide;
        run_panel(memory, memory.right + panel * packed_bytes(sizes_.depth), rows,
                  memory.values + c);
      }
      finish({memory.values, kGroup, part.row + row, rows, column, columns});
    }
  }
  unit_.end();
}

// Multiplies the packed rows by a packed panel of columns.
void Product::run_panel(const Memory& memory, const char* right, int64_t rows, float* c) const {
  const int64_t stride = packed_bytes(sizes_.depth), tiles = divide_up(rows, kTileSide);
  for (int64_t deep = 0; deep < sizes_.depth; deep += kDepthInCache) {
    const int64_t depth = std::min(kDepthInCache, sizes_.depth - deep);
    const int64_t at = deep / kDepthStep * kStepBytes;
    for (int64_t t = 0; t < tiles; ++t) {
      unit_.multiply({memory.left + t * stride + at, right + at, depth, c + t * kTileSide * kGroup,
                      kGroup, deep > 0});
    }
  }
}

// Multiplies the packed rows by a column of ones.
void Product::sum_rows(const Memory& memory, int64_t rows, float* sums) const {
  constexpr uint16_t kOne = 0x3f80;
  alignas(64) uint16_t ones[kDepthInCache];
  std::fill_n(ones, kDepthInCache, kOne);
  // The results of the block are not needed yet.
  char* const packed = reinterpret_cast<char*>(memory.values);
  unit_.pack_right({ones, 1, kDepthInCache}, kDepthInCache, 1, packed);
  for (int64_t r = 0; r < rows; r += kTileSide) {
    const char* left = memory.left + r / kTileSide * packed_bytes(sizes_.depth);
    alignas(64) float c[kTileSide * kTileSide];
    for (int64_t deep = 0; deep < sizes_.depth; deep += kDepthInCache) {
      const int64_t depth = std::min(kDepthInCache, sizes_.depth - deep);
      unit_.multiply(
          {left + deep / kDepthStep * kStepBytes, packed, depth, c, kTileSide, deep > 0});
    }
    for (int64_t i = 0; i < std::min(kTileSide, rows - r); ++i) sums[r + i] = c[i * kTileSide];
  }
}

}  // namespace backends::cpu::bfloat16
