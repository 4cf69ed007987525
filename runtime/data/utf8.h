// Unicode text as UTF-8 (RFC 3629), and the classes of characters that splitting text needs.
#ifndef RUNTIME_DATA_UTF8_H_
#define RUNTIME_DATA_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace runtime::data {

constexpr char32_t kMaxCodePoint = 0x10FFFF;

// The code point that begins at byte `at`, which moves behind it. Throws DataError
// "<name>: at byte <at>: ..." for what is no UTF-8: cut, overlong, surrogates, above U+10FFFF.
char32_t next_code_point(std::string_view text, std::size_t& at, const std::string& name);
void append_utf8(std::string& text, char32_t code_point);

// Letter: the general categories Lu, Ll, Lt, Lm, Lo; number: Nd, Nl, No (both of Unicode 14);
// space: the property White_Space.
enum class CharacterClass { kOther, kSpace, kLetter, kNumber };
CharacterClass classify(char32_t code_point);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_UTF8_H_
