#include "runtime/data/utf8.h"

#include <cstdint>

#include "runtime/data/source.h"

namespace runtime::data {

char32_t next_code_point(std::string_view text, std::size_t& at, const std::string& name) {
  const auto byte = [&](std::size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(at);
  if (first < 0x80) return text[at++];
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  // The smallest code point that needs the number of bytes that is the index.
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  bool valid = first >= 0xC2 && first <= 0xF4 && at + length <= text.size();
  char32_t code_point = first & (0x7F >> length);
  for (std::size_t i = 1; valid && i < length; ++i) {
    valid = (byte(at + i) & 0xC0) == 0x80;
    code_point = code_point << 6 | (byte(at + i) & 0x3F);
  }
  if (!valid || code_point < kSmallest[length] || code_point > kMaxCodePoint ||
      (code_point >= 0xD800 && code_point < 0xE000)) {
    fail_at(name, at,
            "the byte " + std::to_string(first) +
                " begins no character; expected UTF-8 (convert it, or set dataset.tokenizer = "
                "\"byte\")");
  }
  at += length;
  return code_point;
}

void append_utf8(std::string& text, char32_t c) {
  const auto put = [&](char32_t bits) { text += static_cast<char>(bits); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | c >> 6);
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

}  // namespace runtime::data
