// Computes checksums with libdeflate, and joins them with zlib.
#include "runtime/data/crc32.h"

#include <libdeflate.h>
#include <zlib.h>

namespace runtime::data {

// libdeflate uses the processor's carry-less multiplication, so that it is more than twice as fast
// as zlib, which alone can join checksums.
uint32_t crc32(const void* data, std::size_t size, uint32_t before) {
  // libdeflate takes a null pointer as the request for an initial value.
  return size == 0 ? before : libdeflate_crc32(before, data, size);
}

uint32_t joined_crc32(uint32_t first, uint32_t second, std::size_t size) {
  return static_cast<uint32_t>(::crc32_combine(first, second, static_cast<z_off_t>(size)));
}

}  // namespace runtime::data
