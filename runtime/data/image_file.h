// PNG and JPEG files.
#ifndef RUNTIME_DATA_IMAGE_FILE_H_
#define RUNTIME_DATA_IMAGE_FILE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/bilinear.h"

namespace runtime::data {

struct Image {
  ImageSize size;
  int channels = 0;             // 1: grey, 3: red, green, blue
  std::vector<uint8_t> pixels;  // [height, width, channels]
};

// More is refused before anything is allocated for it: a small file can claim any size.
inline constexpr int64_t kMaxPixels = int64_t{1} << 26;

// The format is told by the first bytes. Grey and colour are converted; transparency is put on
// black. `name`: of the file, for messages. Throws DataError for what is damaged, cut, too large or
// neither PNG nor JPEG, and where this build has no decoders.
Image decode_image(std::span<const uint8_t> file, const std::string& name, int channels);

// Throws DataError where this build has no decoders.
void require_image_decoders();

}  // namespace runtime::data

#endif  // RUNTIME_DATA_IMAGE_FILE_H_
