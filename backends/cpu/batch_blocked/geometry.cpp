// Groups output pixels that see the same taps of the filter, and cuts them into register tiles.
#include "backends/cpu/batch_blocked/geometry.h"

#include <algorithm>

namespace backends::cpu::batch_blocked {

Images::Images(const ConvShape& s, Direction direction)
    : in_channels(s.c),
      in_height(s.h),
      in_width(s.w),
      out_channels(s.o),
      out_height(s.p),
      out_width(s.q) {
  if (direction == Direction::kForward) return;
  std::swap(in_channels, out_channels);
  std::swap(in_height, out_height);
  std::swap(in_width, out_width);
}

int64_t Images::rows_that_fit(int64_t bytes, int64_t row_bytes, int64_t filter_rows) const {
  const int64_t in_rows = std::max<int64_t>(1, bytes / row_bytes - filter_rows + 1);
  return std::clamp<int64_t>(in_rows * out_height / in_height, 1, out_height);
}

// One dimension of the output: the taps that are inside the input, for each position.
struct Geometry::Axis {
  // One tap of the filter along this dimension.
  struct Tap {
    int32_t k;       // index in the packed filter
    int32_t offset;  // input position, counted from the position's base
    bool operator==(const Tap&) const = default;
  };
  std::vector<std::vector<Tap>> classes;
  std::vector<int32_t> class_of;  // of each output position
  std::vector<int32_t> base;      // input position of the first tap

  const std::vector<Tap>& taps(int64_t position) const { return classes[class_of[position]]; }
};

Geometry::Geometry(const ConvShape& s, Direction direction, const Sizes& sizes) : sizes_(sizes) {
  const Images images(s, direction);
  in_width_ = images.in_width;
  const Axis rows = axis(direction, images.out_height, images.in_height, s.kh, s.stride_h,
                         s.pad_top, s.dilation_h);
  const Axis columns =
      axis(direction, images.out_width, in_width_, s.kw, s.stride_w, s.pad_left, s.dilation_w);
  std::vector<int32_t> first_run;
  for (size_t r = 0; r < rows.classes.size(); ++r) {
    for (size_t c = 0; c < columns.classes.size(); ++c) {
      first_run.push_back(static_cast<int32_t>(runs.size()));
      add_runs(s, rows, static_cast<int>(r), columns, static_cast<int>(c));
    }
  }
  first_run.push_back(static_cast<int32_t>(runs.size()));
  const auto height = static_cast<int64_t>(rows.class_of.size());
  for (int64_t begin = 0; begin < height; begin += sizes.strip_rows) {
    add_strip(begin, std::min(height, begin + sizes.strip_rows), first_run, rows, columns);
  }
}

Geometry::Axis Geometry::axis(Direction direction, int64_t out, int64_t in, int64_t k,
                              int64_t stride, int64_t pad, int64_t dilation) const {
  Axis result;
  for (int64_t position = 0; position < out; ++position) {
    std::vector<Axis::Tap> taps;
    for (int64_t tap = 0; tap < k; ++tap) {
      // The filter is packed so that the input position grows with the tap, which means backwards
      // for the gradient.
      int64_t at = position * stride - pad + tap * dilation;
      if (direction == Direction::kBackwardData) {
        const int64_t distance = position + pad - (k - 1 - tap) * dilation;
        if (distance < 0 || distance % stride != 0) continue;
        at = distance / stride;
      }
      if (at < 0 || at >= in) continue;
      taps.push_back({static_cast<int32_t>(tap), static_cast<int32_t>(at)});
    }
    const int32_t base = taps.empty() ? 0 : taps.front().offset;
    for (Axis::Tap& tap : taps) tap.offset -= base;
    const auto found = std::find(result.classes.begin(), result.classes.end(), taps);
    result.class_of.push_back(static_cast<int32_t>(found - result.classes.begin()));
    result.base.push_back(base);
    if (found == result.classes.end()) result.classes.push_back(std::move(taps));
  }
  return result;
}

void Geometry::add_runs(const ConvShape& shape, const Axis& rows, int row_class,
                        const Axis& columns, int column_class) {
  const auto pixel = static_cast<int32_t>(sizes_.in_pixel);
  const auto width = static_cast<int32_t>(in_width_), kw = static_cast<int32_t>(shape.kw);
  for (const Axis::Tap& row : rows.classes[row_class]) {
    const Axis::Tap* previous = nullptr;
    for (const Axis::Tap& column : columns.classes[column_class]) {
      if (previous && column.k == previous->k + 1 && column.offset == previous->offset + 1) {
        runs.back().length += pixel;
      } else {
        runs.push_back(
            {(row.offset * width + column.offset) * pixel, (row.k * kw + column.k) * pixel, pixel});
      }
      previous = &column;
    }
  }
}

// Divides the pixels of one class into register tiles of nearly equal size.
void Geometry::add_tiles(const Pixels& pixels, int32_t first_run, int32_t run_count,
                         const Axis& rows, const Axis& columns) {
  const auto count = static_cast<int64_t>(pixels.size());
  const auto width = static_cast<int64_t>(columns.class_of.size());
  const int64_t parts = (count + sizes_.tile_pixels - 1) / sizes_.tile_pixels;
  for (int64_t part = 0; part < parts; ++part) {
    PixelTile tile{};
    tile.first_run = first_run;
    tile.run_count = run_count;
    for (int64_t i = count * part / parts; i < count * (part + 1) / parts; ++i) {
      const auto [r, c] = pixels[i];
      const int64_t row = run_count > 0 ? rows.base[r] - strips.back().row_begin : 0;
      tile.x[tile.count] =
          static_cast<int32_t>((row * in_width_ + columns.base[c]) * sizes_.in_pixel);
      tile.y[tile.count++] = static_cast<int32_t>((r * width + c) * sizes_.out_pixel);
    }
    tiles.push_back(tile);
  }
}

// Adds the tiles of the output rows begin..end.
void Geometry::add_strip(int64_t begin, int64_t end, const std::vector<int32_t>& first_run,
                         const Axis& rows, const Axis& columns) {
  Strip strip{static_cast<int32_t>(tiles.size()), 0, 0, 0};
  std::vector<Pixels> pixels(first_run.size() - 1);
  for (int64_t r = begin; r < end; ++r) {
    for (size_t c = 0; c < columns.class_of.size(); ++c) {
      pixels[rows.class_of[r] * columns.classes.size() + columns.class_of[c]].emplace_back(r, c);
    }
    if (rows.taps(r).empty()) continue;
    const int32_t first = rows.base[r], last = first + rows.taps(r).back().offset;
    const bool none = strip.row_end == 0;
    strip.row_begin = none ? first : std::min(strip.row_begin, first);
    strip.row_end = std::max(strip.row_end, last + 1);
  }
  strips.push_back(strip);
  for (size_t key = 0; key < pixels.size(); ++key) {
    add_tiles(pixels[key], first_run[key], first_run[key + 1] - first_run[key], rows, columns);
  }
  strips.back().tile_end = static_cast<int32_t>(tiles.size());
}

}  // namespace backends::cpu::batch_blocked
