// Decoding of PNG and JPEG files.
#ifndef RUNTIME_DATA_IMAGE_FILE_H_
#define RUNTIME_DATA_IMAGE_FILE_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/region.h"
#include "runtime/data/resample.h"

namespace runtime::data {

// A decoded image, which owns its pixels.
struct Image {
  ImageSize size;
  int channels = 0;             // 1: grey; 3: red, green, blue
  std::vector<uint8_t> pixels;  // [height, width, channels]
};

// A file that claims more pixels is refused before anything is allocated, because a small file can
// claim any size.
inline constexpr int64_t kMaxPixels = int64_t{1} << 26;

// Decodes a file, whose format is told by its first bytes, into `channels` channels (1 or 3): grey
// and colour are converted, and transparent pixels are blended with black. `name` is the file's
// name, for messages. Throws DataError for a file that is damaged, truncated, too large or neither
// PNG nor JPEG, and if this build has no decoders.
Image decode_image(std::span<const uint8_t> file, const std::string& name, int channels);

// A part of an image.
struct RegionImage {
  Image image;  // the part, and perhaps pixels around it
  Box box;      // the part in pixels of `image`
};

// Decodes the region that `choose` returns for the size of the image; of a JPEG file, only that
// region if the library can (libjpeg-turbo from 2.1 on). If it is at least 2, 4 or 8 times as large
// as `least`, a JPEG file is decoded at a half, a quarter or an eighth of its size (scale_denom of
// libjpeg); the region then is no smaller than `least`. Otherwise the pixels of the region are
// those of decode_image(). Throws as that does, but sees damage only in what it decodes.
RegionImage decode_region(std::span<const uint8_t> file, const std::string& name, int channels,
                          const std::function<Region(ImageSize)>& choose, ImageSize least);

// Throws DataError if this build has no decoders.
void require_image_decoders();

}  // namespace runtime::data

#endif  // RUNTIME_DATA_IMAGE_FILE_H_
