// What the decoders of image_file.h have in common.
#ifndef RUNTIME_DATA_IMAGE_DECODERS_H_
#define RUNTIME_DATA_IMAGE_DECODERS_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "runtime/data/image.h"

namespace runtime::data {

// The struct holds what decode_region() is asked for; the references outlive the call.
struct ImageRequest {
  std::span<const uint8_t> file;
  const std::string& name;
  int channels = 0;
  const std::function<Region(ImageSize)>& choose;
  ImageSize least;
};

// Decode a file that begins as one of their format. They throw what decode_region() throws.
RegionImage decode_png(const ImageRequest& request);
RegionImage decode_jpeg(const ImageRequest& request);

// Throws DataError, which says what is wrong with the file `name`.
[[noreturn]] void refuse_image(const std::string& name, const std::string& what);

// Throws DataError if the header of the file `name` claims no pixels or too many.
void check_size(int64_t height, int64_t width, const std::string& name);

// Gives an image so many pixels, of `channels` channels.
void allocate(Image& image, int64_t height, int64_t width, int channels);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_IMAGE_DECODERS_H_
