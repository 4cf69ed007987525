#include "runtime/data/crc32.h"

#include <zlib.h>

namespace runtime::data {

uint32_t crc32(const void* data, std::size_t size, uint32_t before) {
  // zlib takes a null pointer as the request for an initial value.
  if (size == 0) return before;
  return static_cast<uint32_t>(::crc32_z(before, static_cast<const Bytef*>(data), size));
}

uint32_t joined_crc32(uint32_t first, uint32_t second, std::size_t size) {
  return static_cast<uint32_t>(::crc32_combine(first, second, static_cast<z_off_t>(size)));
}

}  // namespace runtime::data
