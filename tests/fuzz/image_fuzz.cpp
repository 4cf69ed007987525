// Any bytes are either an image of the size that its header states, or are refused with a
// DataError.
#include <cstdlib>

#include "runtime/data/image_file.h"
#include "runtime/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (const int channels : {1, 3}) {
    try {
      const runtime::data::Image image =
          runtime::data::decode_image({data, size}, "fuzz", channels);
      const int64_t expected = image.size.height * image.size.width * channels;
      if (static_cast<int64_t>(image.pixels.size()) != expected) std::abort();
      const auto middle = [](runtime::data::ImageSize from) {
        return runtime::data::RandomRegion{0.1, 1, 2, 3}.choose(from);
      };
      const runtime::data::RegionImage part =
          runtime::data::decode_region({data, size}, "fuzz", channels, middle, {8, 8});
      const runtime::data::ImageSize to{8, 8};
      float out[8 * 8 * 3];
      runtime::data::Resampler(part.image.size, part.box, to)
          .apply(part.image.pixels.data(), channels, out);
    } catch (const runtime::DataError&) {
    }
  }
  return 0;
}
