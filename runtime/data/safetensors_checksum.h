// The checksum in the metadata of the safetensors files that this runtime writes: reading finds a
// damaged byte in the header or in the data.
#ifndef RUNTIME_DATA_SAFETENSORS_CHECKSUM_H_
#define RUNTIME_DATA_SAFETENSORS_CHECKSUM_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace runtime::data {

// Bytes of the length of the header, a little-endian number with which a file begins.
inline constexpr std::size_t kLengthSize = sizeof(uint64_t);
static_assert(std::endian::native == std::endian::little);

// The CRC-32 (that of gzip and PNG) of a whole file. The file holds its own checksum in two keys of
// the metadata in its header:
//   "runtime.checksum": "crc32:1c291ca3", "runtime.checksum_of": "file with zeros for the digits"
// Since the eight digits cannot be part of what they are computed from, they count as zeros. The
// second key shows that a file has a checksum even if a damaged byte has changed the name of the
// first key; without it, such a file would be read unchecked.
class Checksum {
 public:
  // Begins with the length and the header, whose digits must be zeros.
  explicit Checksum(const std::string& header);
  void add(const void* data, std::size_t size);
  // Adds `size` bytes that `crc` is the CRC-32 of.
  void add_known(uint32_t crc, std::size_t size);
  // Writes the digits into their place in the header.
  void write_into(std::string& header) const;
  // Throws DataError with both checksums if this one is not the one in the file's header.
  void check(const std::string& file) const;

 private:
  friend std::optional<Checksum> expected_checksum(std::map<std::string, std::string>& metadata,
                                                   std::string header, const std::string& file);
  std::string text() const;

  uint32_t crc_ = 0;
  std::string expected_;
};

// Adds both keys with zeros for the digits.
void add_blank_checksum(std::map<std::string, std::string>& metadata);

// Takes the keys of the checksum out of the metadata of a file that is read. Returns nothing if the
// file has none because another program has written it. Throws DataError if the value is not a
// checksum of this kind.
std::optional<Checksum> expected_checksum(std::map<std::string, std::string>& metadata,
                                          std::string header, const std::string& file);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_SAFETENSORS_CHECKSUM_H_
