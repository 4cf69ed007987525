// The functions of image_file.h in a build without libjpeg or libpng.
#include "runtime/data/image_file.h"
#include "runtime/error.h"

namespace runtime::data {

void require_image_decoders() {
  throw DataError(
      "image folders need libjpeg and libpng, which this build lacks; install libjpeg-dev and "
      "libpng-dev and build again");
}

Image decode_image(std::span<const uint8_t>, const std::string&, int) {
  require_image_decoders();
  return {};
}

RegionImage decode_region(std::span<const uint8_t>, const std::string&, int,
                          const std::function<Region(ImageSize)>&, ImageSize) {
  require_image_decoders();
  return {};
}

}  // namespace runtime::data
