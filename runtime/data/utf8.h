// Unicode text as UTF-8 (RFC 3629), and the character classes by which GPT-2's pattern splits text.
#ifndef RUNTIME_DATA_UTF8_H_
#define RUNTIME_DATA_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace runtime::data {

constexpr char32_t kMaxCodePoint = 0x10FFFF;  // the largest code point of Unicode

// Returns the code point that begins at byte `at`, and moves `at` behind it. Throws DataError
// "<name>: at byte <at>: ..." for bytes that are not UTF-8: truncated or overlong sequences,
// surrogates, and numbers above U+10FFFF.
char32_t next_code_point(std::string_view text, std::size_t& at, const std::string& name);
// Appends the UTF-8 bytes of a code point.
void append_utf8(std::string& text, char32_t code_point);

// Letters are the general categories Lu, Ll, Lt, Lm and Lo, numbers are Nd, Nl and No, and spaces
// have the property White_Space. The version of Unicode is that of the library utf8proc: later ones
// turn code points that were not assigned into letters and numbers.
enum class CharacterClass { kOther, kSpace, kLetter, kNumber };
CharacterClass classify(char32_t code_point);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_UTF8_H_
