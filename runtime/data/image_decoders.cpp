// Bounds the size of images, and refuses those that cannot be decoded.
#include "runtime/data/image_decoders.h"

#include "runtime/error.h"

namespace runtime::data {

void refuse_image(const std::string& name, const std::string& what) {
  throw DataError(name + ": " + what +
                  "; expected a whole PNG or JPEG file: fetch it again, or remove it");
}

void check_size(int64_t height, int64_t width, const std::string& name) {
  if (height < 1 || width < 1 || height > kMaxPixels / width) {
    refuse_image(name, "the header says " + std::to_string(height) + "x" + std::to_string(width) +
                           " pixels, at most " + std::to_string(kMaxPixels) + " are read");
  }
}

void allocate(Image& image, int64_t height, int64_t width, int channels) {
  image.size = {height, width};
  image.channels = channels;
  image.pixels.resize(static_cast<std::size_t>(height * width * channels));
}

}  // namespace runtime::data
