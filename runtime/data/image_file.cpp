// Chooses the decoder by the first bytes of a file.
#include "runtime/data/image_file.h"

#include <cstring>

#include "runtime/data/image_decoders.h"

namespace runtime::data {
namespace {

bool begins_with(std::span<const uint8_t> file, const char* bytes, std::size_t count) {
  return file.size() >= count && std::memcmp(file.data(), bytes, count) == 0;
}

}  // namespace

void require_image_decoders() {}

RegionImage decode_region(std::span<const uint8_t> file, const std::string& name, int channels,
                          const std::function<Region(ImageSize)>& choose, ImageSize least) {
  const ImageRequest request{file, name, channels, choose, least};
  if (begins_with(file, "\xff\xd8\xff", 3)) return decode_jpeg(request);
  if (begins_with(file, "\x89PNG\r\n\x1a\n", 8)) return decode_png(request);
  refuse_image(name, "it begins like neither");
}

Image decode_image(std::span<const uint8_t> file, const std::string& name, int channels) {
  const auto whole = [](ImageSize size) { return Region{0, 0, size}; };
  constexpr ImageSize kAsItIs{kMaxPixels, kMaxPixels};
  return decode_region(file, name, channels, whole, kAsItIs).image;
}

}  // namespace runtime::data
