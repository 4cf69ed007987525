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
    } catch (const runtime::DataError&) {
    }
  }
  return 0;
}
