// Parses IDX files, the format of MNIST.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <utility>

#include "runtime/data/array.h"

namespace runtime::data {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr int kMaxIdxRank = 8;

std::string magic_text(const uint8_t* magic) {
  char text[16];
  std::snprintf(text, sizeof text, "%02x %02x %02x %02x", magic[0], magic[1], magic[2], magic[3]);
  return text;
}

// By the third byte of the file.
constexpr std::pair<uint8_t, ElementType> kIdxTypes[] = {
    {0x08, ElementType::kUint8}, {0x09, ElementType::kInt8},    {0x0B, ElementType::kInt16},
    {0x0C, ElementType::kInt32}, {0x0D, ElementType::kFloat32}, {0x0E, ElementType::kFloat64}};

ElementType type_of(const Source& source, const uint8_t* magic) {
  for (const auto& [byte, type] : kIdxTypes)
    if (byte == magic[2]) return type;
  fail_at(source.name(), 2,
          "unknown IDX element type in " + magic_text(magic) +
              "; expected 08, 09, 0b, 0c, 0d or 0e as the third byte");
}

void read_header(Source& source, Array& array) {
  uint8_t magic[4] = {};
  source.read_exactly(magic, sizeof magic, "the IDX magic number");
  if (magic[0] != 0 || magic[1] != 0) {
    fail_at(source.name(), 0,
            "wrong magic number " + magic_text(magic) +
                "; expected an IDX file, which begins with 00 00");
  }
  array.type = type_of(source, magic);
  if (magic[3] < 1 || magic[3] > kMaxIdxRank) {
    fail_at(source.name(), 3,
            "the IDX header says " + std::to_string(magic[3]) + " dimensions; expected 1.." +
                std::to_string(kMaxIdxRank));
  }
  for (int i = 0; i < magic[3]; ++i) {
    uint8_t dim[4] = {};
    source.read_exactly(dim, sizeof dim, "the IDX dimensions");
    array.dims.push_back(int64_t{dim[0]} << 24 | dim[1] << 16 | dim[2] << 8 | dim[3]);
  }
}

void to_little_endian(Array& array) {
  const std::size_t size = element_size(array.type);
  if (size == 1) return;
  uint8_t* data = array.bytes.data.get();
  for (std::size_t i = 0; i < array.bytes.size; i += size) std::reverse(data + i, data + i + size);
}

Array parse_idx(Source& source) {
  Array array;
  read_header(source, array);
  read_elements(source, array);
  to_little_endian(array);
  return array;
}

}  // namespace

Array read_idx(const std::string& path) { return parse_idx(*gunzip_if_needed(open_file(path))); }

Array parse_idx(const void* data, std::size_t size, const std::string& name) {
  return parse_idx(*gunzip_if_needed(memory_source(data, size, name)));
}

}  // namespace runtime::data
