// CRC-32, that of gzip and PNG.
#ifndef RUNTIME_DATA_CRC32_H_
#define RUNTIME_DATA_CRC32_H_

#include <cstddef>
#include <cstdint>

namespace runtime::data {

// Returns the checksum of `size` bytes behind those that `before` is the checksum of; 0: of none.
uint32_t crc32(const void* data, std::size_t size, uint32_t before = 0);

// Returns the checksum of what `first` is the checksum of and the `size` bytes behind it, which
// `second` is the checksum of.
uint32_t joined_crc32(uint32_t first, uint32_t second, std::size_t size);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_CRC32_H_
