// The table of GPT-2 between bytes and visible characters.
#include "runtime/tokenizer/visible_bytes.h"

#include <array>
#include <cstdint>

#include "runtime/tokenizer/utf8.h"

namespace runtime::tokenizer {
namespace {

struct ByteTable {
  std::array<std::string, 256> characters;  // of each byte
  std::array<int, 324> bytes;               // of each code point

  ByteTable() {
    bytes.fill(-1);
    char32_t next = 256;
    for (char32_t b = 0; b < 256; ++b) {
      const bool visible = (b > 0x20 && b < 0x7F) || (b > 0xA0 && b != 0xAD);
      const char32_t character = visible ? b : next++;
      append_utf8(characters[b], character);
      bytes[character] = static_cast<int>(b);
    }
  }
};

const ByteTable& byte_table() {
  static const ByteTable& table = *new ByteTable;
  return table;
}

}  // namespace

std::string visible_bytes(std::string_view bytes) {
  const ByteTable& table = byte_table();
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char byte : bytes) text += table.characters[static_cast<uint8_t>(byte)];
  return text;
}

int byte_of(char32_t visible) {
  const auto& bytes = byte_table().bytes;
  return visible < bytes.size() ? bytes[visible] : -1;
}

}  // namespace runtime::tokenizer
