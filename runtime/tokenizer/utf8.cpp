// Decodes and encodes code points, and asks utf8proc for their properties.
#include "runtime/tokenizer/utf8.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <new>

#include "runtime/error.h"

namespace runtime::tokenizer {
namespace {

const uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

// Returns the bytes of the character that begins at `at`; 0 or less: there is none.
utf8proc_ssize_t decode_at(std::string_view text, std::size_t at, utf8proc_int32_t& code_point) {
  const auto left = static_cast<utf8proc_ssize_t>(text.size() - at);
  return utf8proc_iterate(bytes_of(text) + at, left, &code_point);
}

// Returns the length of the longest beginning of a character at `at`, where no character is. It is
// replaced as a whole (Unicode 15, section 3.9, "U+FFFD Substitution of Maximal Subparts").
std::size_t broken_length(std::string_view text, std::size_t at) {
  for (std::size_t length = std::min<std::size_t>(3, text.size() - at); length > 1; --length) {
    const std::string whole = std::string(text.substr(at, length)) + "\x80\x80";
    utf8proc_int32_t code_point = 0;
    if (decode_at(whole, 0, code_point) > static_cast<utf8proc_ssize_t>(length)) return length;
  }
  return 1;
}

// The options of utf8proc for each NormalForm, in their order.
constexpr int kNormalFormOptions[] = {UTF8PROC_STABLE | UTF8PROC_COMPOSE,
                                      UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
                                      UTF8PROC_STABLE | UTF8PROC_COMPAT | UTF8PROC_COMPOSE,
                                      UTF8PROC_STABLE | UTF8PROC_COMPAT | UTF8PROC_DECOMPOSE};
static_assert(std::size(kNormalFormOptions) == static_cast<size_t>(NormalForm::kNfkd) + 1);

bool is_ascii(char byte) { return static_cast<uint8_t>(byte) < 0x80; }

}  // namespace

char32_t next_code_point(std::string_view text, std::size_t& at, const std::string& name) {
  utf8proc_int32_t code_point = 0;
  const utf8proc_ssize_t length = decode_at(text, at, code_point);
  if (length <= 0) {
    throw DataError(name + ": at byte " + std::to_string(at) + ": the byte " +
                    std::to_string(bytes_of(text)[at]) +
                    " begins no character; expected UTF-8 (convert it, set dataset.invalid_utf8 = "
                    "\"replace\", or set dataset.tokenizer = \"byte\")");
  }
  at += static_cast<std::size_t>(length);
  return static_cast<char32_t>(code_point);
}

char32_t next_code_point(std::string_view text, std::size_t& at) {
  if (is_ascii(text[at])) return static_cast<char32_t>(text[at++]);
  utf8proc_int32_t code_point = 0;
  at += static_cast<std::size_t>(std::max<utf8proc_ssize_t>(decode_at(text, at, code_point), 1));
  return static_cast<char32_t>(code_point);
}

void append_utf8(std::string& text, char32_t code_point) {
  if (code_point < 0x80) return text.push_back(static_cast<char>(code_point));
  uint8_t bytes[4];
  const utf8proc_ssize_t length =
      utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes);
  text.append(bytes, bytes + length);
}

void check_utf8(std::string_view text, const std::string& name) {
  for (std::size_t at = 0; at < text.size();) {
    if (is_ascii(text[at]))
      ++at;
    else
      next_code_point(text, at, name);
  }
}

std::string with_replacements(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    utf8proc_int32_t code_point = 0;
    const auto length = static_cast<std::ptrdiff_t>(decode_at(text, at, code_point));
    const std::size_t end =
        at + (length > 0 ? static_cast<std::size_t>(length) : broken_length(text, at));
    result += length > 0 ? text.substr(at, end - at) : "\uFFFD";
    at = end;
  }
  return result;
}

std::size_t last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

std::size_t spaces_at_end(std::string_view text) {
  while (!text.empty()) {
    const std::size_t last = last_character(text);
    std::size_t at = last;
    if (!is_space(next_code_point(text, at))) break;
    text = text.substr(0, last);
  }
  return text.size();
}

std::size_t spaces_from(std::string_view text, std::size_t at) {
  for (std::size_t next = at; next < text.size(); at = next) {
    if (!is_space(next_code_point(text, next))) break;
  }
  return at;
}

bool in_category(char32_t code_point, std::string_view category) {
  const char* of = utf8proc_category_string(static_cast<utf8proc_int32_t>(code_point));
  return of[0] == category[0] && (category.size() == 1 || of[1] == category[1]);
}

bool is_space(char32_t code_point) {
  // These control characters are all others that have White_Space.
  const bool control = (code_point >= '\t' && code_point <= '\r') || code_point == 0x85;
  if (code_point < 0x80) return code_point == ' ' || control;
  return control || in_category(code_point, "Z");
}

void append_lower_case(std::string& text, char32_t code_point) {
  constexpr char32_t kCapitalIWithDot = 0x130;
  const auto lower = utf8proc_tolower(static_cast<utf8proc_int32_t>(code_point));
  if (code_point == kCapitalIWithDot)
    text += "i\u0307";
  else
    append_utf8(text, static_cast<char32_t>(lower));
}

// Only what is not ASCII changes, together with the character before it, to which it may be added.
std::string normal_form(std::string_view text, NormalForm form) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const auto first = std::find_if_not(text.begin() + at, text.end(), is_ascii);
    const auto behind = std::find_if(first, text.end(), is_ascii);
    const std::size_t end = static_cast<std::size_t>(behind - text.begin());
    std::size_t begin = static_cast<std::size_t>(first - text.begin());
    if (begin > at && begin < text.size()) --begin;
    result += text.substr(at, begin - at);
    at = end;
    if (begin == end) continue;
    uint8_t* made = nullptr;
    const utf8proc_ssize_t size =
        utf8proc_map(bytes_of(text) + begin, static_cast<utf8proc_ssize_t>(end - begin), &made,
                     static_cast<utf8proc_option_t>(kNormalFormOptions[static_cast<int>(form)]));
    const std::unique_ptr<uint8_t, decltype(&std::free)> owner(made, &std::free);
    if (size < 0) throw std::bad_alloc();
    result.append(made, made + size);
  }
  return result;
}

std::size_t grapheme_end(std::string_view text, std::size_t at) {
  utf8proc_int32_t state = 0;
  char32_t before = next_code_point(text, at);
  while (at < text.size()) {
    std::size_t next = at;
    const char32_t code_point = next_code_point(text, next);
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(before),
                                         static_cast<utf8proc_int32_t>(code_point), &state))
      break;
    before = code_point;
    at = next;
  }
  return at;
}

}  // namespace runtime::tokenizer
