// Unicode text as UTF-8 (RFC 3629): its code points, their properties and the normal forms.
#ifndef RUNTIME_TOKENIZER_UTF8_H_
#define RUNTIME_TOKENIZER_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace runtime::tokenizer {

constexpr char32_t kMaxCodePoint = 0x10FFFF;  // the largest code point of Unicode

// Returns the code point that begins at byte `at`, and moves `at` behind it. Throws DataError
// "<name>: at byte <at>: ..." for bytes that are not UTF-8: truncated or overlong sequences,
// surrogates, and numbers above U+10FFFF.
char32_t next_code_point(std::string_view text, std::size_t& at, const std::string& name);
// Does the same for text that is known to be UTF-8.
char32_t next_code_point(std::string_view text, std::size_t& at);
// Appends the UTF-8 bytes of a code point.
void append_utf8(std::string& text, char32_t code_point);
// Throws DataError as next_code_point() for the first bytes of `text` that are not UTF-8.
void check_utf8(std::string_view text, const std::string& name);
// Returns the text with U+FFFD in place of each sequence of bytes that begins no character.
// Equivalent to: bytes.decode("utf-8", errors="replace") of Python.
std::string with_replacements(std::string_view text);
// Returns where the last character of a text begins; the text is UTF-8 and not empty.
std::size_t last_character(std::string_view text);
// Returns where the spaces at the end of a text begin.
std::size_t spaces_at_end(std::string_view text);
// Returns where the spaces from `at` end.
std::size_t spaces_from(std::string_view text, std::size_t at);

// Returns whether the general category of a code point is `category` or begins with it: one or two
// letters, for example "L" (letters) or "Mn" (nonspacing marks). The version of Unicode is that of
// the library utf8proc.
bool in_category(char32_t code_point, std::string_view category);
// Returns whether a code point has the property White_Space.
bool is_space(char32_t code_point);
// Appends the lower case of a code point, which has more than one character for U+0130 alone.
void append_lower_case(std::string& text, char32_t code_point);

// The normal forms of Unicode (UAX #15).
enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };
// Returns the normal form of a text, which is UTF-8.
std::string normal_form(std::string_view text, NormalForm form);
// Returns where the extended grapheme cluster (UAX #29) that begins at `at` ends.
std::size_t grapheme_end(std::string_view text, std::size_t at);

}  // namespace runtime::tokenizer

#endif  // RUNTIME_TOKENIZER_UTF8_H_
