// Decoded images.
#ifndef RUNTIME_DATA_IMAGE_H_
#define RUNTIME_DATA_IMAGE_H_

#include <cstdint>
#include <vector>

#include "runtime/data/resample.h"

namespace runtime::data {

// A file that claims more pixels is refused before anything is allocated, because a small file can
// claim any size.
inline constexpr int64_t kMaxPixels = int64_t{1} << 26;

// A decoded image, which owns its pixels.
struct Image {
  ImageSize size;
  int channels = 0;             // 1: grey; 3: red, green, blue
  std::vector<uint8_t> pixels;  // [height, width, channels]
};

// A part of an image.
struct RegionImage {
  Image image;  // the part, and perhaps pixels around it
  Box box;      // the part in pixels of `image`
};

// Converts an image to `channels` channels (1 or 3), which are no more than it has. Grey is
// 0.299 red + 0.587 green + 0.114 blue. Four channels are cyan, magenta, yellow and black as
// Adobe's programs store them, where 255 is no ink; red becomes cyan * black / 255, and so on.
// Equivalent to: Pillow's convert("L") and convert("RGB").
Image with_channels(Image image, int channels);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_IMAGE_H_
