// The checksum that our safetensors files carry in their metadata: a damaged byte, in the header or
// in the data, is found when the file is read.
#ifndef RUNTIME_DATA_SAFETENSORS_CHECKSUM_H_
#define RUNTIME_DATA_SAFETENSORS_CHECKSUM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace runtime::data {

inline constexpr std::size_t kLengthSize = 8;
// The size of the header, little-endian, as the file begins.
std::array<uint8_t, kLengthSize> length_bytes(uint64_t header_size);

// CRC-32 (that of gzip and PNG) of the whole file, with zeros in place of its own digits:
//   "runtime.checksum": "crc32:1c291ca3", "runtime.checksum_of": "file with zeros for the digits"
// The second key is there for a single damaged byte that makes the first one unrecognisable.
class Checksum {
 public:
  // Begins with the length and the header, whose digits are zeros.
  explicit Checksum(const std::string& header);
  void add(const void* data, std::size_t size);
  // Puts the digits in their place in the header.
  void write_into(std::string& header) const;
  // Throws DataError with both if it is not the one that the file's header has.
  void check(const std::string& file) const;

 private:
  friend std::optional<Checksum> expected_checksum(std::map<std::string, std::string>& metadata,
                                                   std::string header, const std::string& file);
  std::string text() const;

  unsigned long crc_;  // zlib's type
  std::string expected_;
};

void add_blank_checksum(std::map<std::string, std::string>& metadata);

// Takes the checksum's keys out of the metadata of a file that is read. nullopt: the file has none,
// because another program has written it. Throws DataError for one that is no checksum of ours.
std::optional<Checksum> expected_checksum(std::map<std::string, std::string>& metadata,
                                          std::string header, const std::string& file);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_SAFETENSORS_CHECKSUM_H_
