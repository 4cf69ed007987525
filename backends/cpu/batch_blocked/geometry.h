// The register tiles of a convolution: which output pixels are computed together, and which taps of
// the filter they see.
#ifndef BACKENDS_CPU_BATCH_BLOCKED_GEOMETRY_H_
#define BACKENDS_CPU_BATCH_BLOCKED_GEOMETRY_H_

#include <utility>
#include <vector>

#include "backends/cpu/batch_blocked/shapes.h"

namespace backends::cpu::batch_blocked {

// Which of the two operations a convolution computes.
enum class Direction { kForward, kBackwardData };

// The images that a convolution reads and writes: x and y, or dy and dx.
struct Images {
  int64_t in_channels, in_height, in_width;
  int64_t out_channels, out_height, out_width;

  Images(const ConvShape& shape, Direction direction);
  int64_t in_pixels() const { return in_height * in_width; }
  int64_t out_pixels() const { return out_height * out_width; }
  // The number of output rows, at least 1, whose input fits into `bytes`. An input row has
  // `row_bytes` bytes, and the filter `filter_rows` rows.
  int64_t rows_that_fit(int64_t bytes, int64_t row_bytes, int64_t filter_rows) const;
};

// The output rows of a strip are computed before those of the next one, so that their input stays
// in the cache.
struct Strip {
  int32_t tile_begin, tile_end;  // in Geometry::tiles
  int32_t row_begin, row_end;    // of the input that the strip reads
};

// The tiles of one sample block. Output pixels with the same set of taps inside the image form a
// class, and a register tile holds pixels of one class only. So taps that fall on padding, or
// between the pixels of a strided gradient, cost nothing.
class Geometry {
 public:
  // How many units of offsets a pixel of the input and one of the output takes (its channels, say),
  // how many pixels a tile may hold, and how many output rows a strip.
  struct Sizes {
    int64_t in_pixel, out_pixel, tile_pixels, strip_rows;
  };
  Geometry(const ConvShape& shape, Direction direction, const Sizes& sizes);

  // PixelTile::x counts from the first pixel of the strip's first input row, PixelTile::y from that
  // of the block.
  std::vector<Run> runs;
  std::vector<PixelTile> tiles;
  std::vector<Strip> strips;

 private:
  struct Axis;
  using Pixels = std::vector<std::pair<int64_t, int64_t>>;  // row and column
  Axis axis(Direction direction, int64_t out, int64_t in, int64_t k, int64_t stride, int64_t pad,
            int64_t dilation) const;
  void add_runs(const ConvShape& shape, const Axis& rows, int row_class, const Axis& columns,
                int column_class);
  void add_tiles(const Pixels& pixels, int32_t first_run, int32_t run_count, const Axis& rows,
                 const Axis& columns);
  void add_strip(int64_t begin, int64_t end, const std::vector<int32_t>& first_run,
                 const Axis& rows, const Axis& columns);

  Sizes sizes_;
  int64_t in_width_;
};

}  // namespace backends::cpu::batch_blocked

#endif  // BACKENDS_CPU_BATCH_BLOCKED_GEOMETRY_H_
