// Decodes UTF-8, and escapes control characters and bytes that are no text.
#include "plugins/host/printable.h"

#include <cstdint>

namespace plugins::host {
namespace {

struct Character {
  std::size_t bytes = 1;
  uint32_t code = 0;
  bool valid = false;
};

bool continues(std::string_view text, std::size_t i) {
  return i < text.size() && (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80;
}

// The UTF-8 character at the front of `text`, which must not be empty.
Character first_character(std::string_view text) {
  static constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};  // smallest code by length
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {1, lead, true};
  const std::size_t bytes = lead >> 5 == 0x6 ? 2 : lead >> 4 == 0xE ? 3 : lead >> 3 == 0x1E ? 4 : 0;
  if (bytes == 0) return {};
  uint32_t code = lead & (0xFFu >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if (!continues(text, i)) return {};
    code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3F);
  }
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return {bytes, code, code >= kLeast[bytes] && code <= 0x10FFFF && !surrogate};
}

// C0 and C1 controls (terminals obey both), DEL, line and paragraph separators, and the marks that
// change the direction of writing.
bool is_control(uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code <= 0x9F) || code == 0x2028 || code == 0x2029 ||
         (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

void append_escaped(std::string& out, std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += "\\x";
    out += kDigits[byte >> 4];
    out += kDigits[byte & 0xF];
  }
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    Character c = first_character(text);
    if (!c.valid) c.bytes = 1;
    const std::string_view bytes = text.substr(0, c.bytes);
    if (c.valid && !is_control(c.code)) {
      out += bytes;
    } else {
      append_escaped(out, bytes);
    }
    text.remove_prefix(c.bytes);
  }
  return out;
}

}  // namespace plugins::host
