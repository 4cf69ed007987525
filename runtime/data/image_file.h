// Decoding of PNG and JPEG files.
#ifndef RUNTIME_DATA_IMAGE_FILE_H_
#define RUNTIME_DATA_IMAGE_FILE_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "runtime/data/image.h"

namespace runtime::data {

// Decodes a file, whose format is told by its first bytes, into `channels` channels (1 or 3), and
// turns it as its EXIF orientation says. The samples are those in the file: 16 bits become
// value / 257, rounded, colour becomes grey as with_channels() says, transparency is left out, and
// gamma and colour profiles are not applied. JPEG files with four inks become colours. `name` is
// the file's name, for messages. Equivalent to: Pillow's ImageOps.exif_transpose and convert("RGB")
// or convert("L"). Throws DataError for a file that is damaged, truncated, too large or neither PNG
// nor JPEG, and if this build has no decoders.
Image decode_image(std::span<const uint8_t> file, const std::string& name, int channels);

// Decodes the region that `choose` returns for the size of the image as it is seen; of a JPEG file,
// only that region if the library can (libjpeg-turbo from 2.1 on). If it is at least 2, 4 or 8
// times as large as `least`, a JPEG file is decoded at a half, a quarter or an eighth of its size
// (scale_denom of libjpeg); the region then is no smaller than `least`. Otherwise the pixels of the
// region are those of decode_image(). Throws as that does, but sees damage only in what it decodes.
RegionImage decode_region(std::span<const uint8_t> file, const std::string& name, int channels,
                          const std::function<Region(ImageSize)>& choose, ImageSize least);

// Throws DataError if this build has no decoders.
void require_image_decoders();

}  // namespace runtime::data

#endif  // RUNTIME_DATA_IMAGE_FILE_H_
