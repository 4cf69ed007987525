// Reads the orientation out of EXIF data, and turns sizes, regions and pixels.
#include "runtime/data/orientation.h"

#include <algorithm>
#include <array>
#include <utility>

namespace runtime::data {
namespace {

// A block of EXIF data, which is a TIFF file; its first letter tells the order of its bytes.
class Tiff {
 public:
  explicit Tiff(std::span<const uint8_t> bytes)
      : bytes_(bytes), little_(!bytes.empty() && bytes[0] == 'I') {}

  // Returns the number of `size` bytes at the position `at`; bytes behind the end are zeros.
  uint32_t number(std::size_t at, std::size_t size) const {
    uint32_t value = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const std::size_t byte = at + (little_ ? size - 1 - i : i);
      value = value << 8 | (byte < bytes_.size() ? bytes_[byte] : 0u);
    }
    return value;
  }

 private:
  std::span<const uint8_t> bytes_;
  bool little_;
};

std::span<const uint8_t> without_prefix(std::span<const uint8_t> exif) {
  constexpr std::array<uint8_t, 6> kPrefix{'E', 'x', 'i', 'f', 0, 0};
  const bool prefixed =
      exif.size() >= kPrefix.size() && std::equal(kPrefix.begin(), kPrefix.end(), exif.begin());
  return prefixed ? exif.subspan(kPrefix.size()) : exif;
}

// Returns EXIF's number of the orientation, or 0 if there is none.
uint32_t orientation_number(const Tiff& tiff) {
  constexpr uint32_t kMagic = 42, kOrientation = 0x0112, kShort = 3, kLong = 4;
  if (tiff.number(2, 2) != kMagic) return 0;
  const std::size_t directory = tiff.number(4, 4);
  const uint32_t entries = tiff.number(directory, 2);
  for (uint32_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + std::size_t{12} * i;
    if (tiff.number(entry, 2) != kOrientation) continue;
    const uint32_t type = tiff.number(entry + 2, 2);
    if (type == kShort) return tiff.number(entry + 8, 2);
    if (type == kLong) return tiff.number(entry + 8, 4);
  }
  return 0;
}

}  // namespace

Orientation orientation_of(std::span<const uint8_t> exif) {
  // The rows are EXIF's numbers: reversed rows, reversed columns, transposed.
  constexpr std::array<Orientation, 9> kOrientations{{{},
                                                      {false, false, false},
                                                      {false, true, false},
                                                      {true, true, false},
                                                      {true, false, false},
                                                      {false, false, true},
                                                      {true, false, true},
                                                      {true, true, true},
                                                      {false, true, true}}};
  const uint32_t number = orientation_number(Tiff(without_prefix(exif)));
  return number < kOrientations.size() ? kOrientations[number] : Orientation{};
}

ImageSize Orientation::turned(ImageSize size) const {
  return transposed ? ImageSize{size.width, size.height} : size;
}

Region Orientation::stored(Region seen, ImageSize stored) const {
  if (transposed) std::swap(seen.top, seen.left);
  seen.size = turned(seen.size);
  if (rows_reversed) seen.top = stored.height - seen.top - seen.size.height;
  if (columns_reversed) seen.left = stored.width - seen.left - seen.size.width;
  return seen;
}

RegionImage Orientation::seen(RegionImage stored) const {
  if (*this == Orientation{}) return stored;
  const auto [height, width] = stored.image.size;
  const int channels = stored.image.channels;
  RegionImage result{{turned(stored.image.size), channels, {}}, stored.box};
  Box& box = result.box;
  if (rows_reversed) box.top = static_cast<double>(height) - box.top - box.height;
  if (columns_reversed) box.left = static_cast<double>(width) - box.left - box.width;
  if (transposed) box = {box.left, box.top, box.width, box.height};
  result.image.pixels.resize(stored.image.pixels.size());
  uint8_t* out = result.image.pixels.data();
  for (int64_t y = 0; y < result.image.size.height; ++y) {
    for (int64_t x = 0; x < result.image.size.width; ++x, out += channels) {
      int64_t row = transposed ? x : y, column = transposed ? y : x;
      if (rows_reversed) row = height - 1 - row;
      if (columns_reversed) column = width - 1 - column;
      std::copy_n(&stored.image.pixels[static_cast<std::size_t>((row * width + column) * channels)],
                  channels, out);
    }
  }
  return result;
}

}  // namespace runtime::data
