// Decodes and encodes code points, and asks utf8proc for their classes.
#include "runtime/data/utf8.h"

#include <utf8proc.h>

#include <cstdint>

#include "runtime/data/source.h"

namespace runtime::data {

char32_t next_code_point(std::string_view text, std::size_t& at, const std::string& name) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data()) + at;
  utf8proc_int32_t code_point = 0;
  const auto left = static_cast<utf8proc_ssize_t>(text.size() - at);
  const utf8proc_ssize_t length = utf8proc_iterate(bytes, left, &code_point);
  if (length <= 0) {
    fail_at(name, at,
            "the byte " + std::to_string(bytes[0]) +
                " begins no character; expected UTF-8 (convert it, or set dataset.tokenizer = "
                "\"byte\")");
  }
  at += static_cast<std::size_t>(length);
  return static_cast<char32_t>(code_point);
}

void append_utf8(std::string& text, char32_t code_point) {
  uint8_t bytes[4];
  const utf8proc_ssize_t length =
      utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes);
  text.append(bytes, bytes + length);
}

CharacterClass classify(char32_t code_point) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code_point))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharacterClass::kLetter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharacterClass::kNumber;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return CharacterClass::kSpace;
    default: {
      // These control characters are all others that have White_Space.
      const bool space = (code_point >= '\t' && code_point <= '\r') || code_point == 0x85;
      return space ? CharacterClass::kSpace : CharacterClass::kOther;
    }
  }
}

}  // namespace runtime::data
