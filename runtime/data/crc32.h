// CRC-32, that of gzip and PNG.
#ifndef RUNTIME_DATA_CRC32_H_
#define RUNTIME_DATA_CRC32_H_

#include <cstddef>
#include <cstdint>

namespace runtime::data {

// Returns the checksum of `size` bytes behind those that `before` is the checksum of; 0: of none.
uint32_t crc32(const void* data, std::size_t size, uint32_t before = 0);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_CRC32_H_
