// Checks UTF-8, properties of characters and normal forms.
#include "runtime/tokenizer/utf8.h"

#include <gmock/gmock.h>

#include "tests/runtime/tokenizer/documents.h"

namespace runtime::tokenizer {
namespace {

using testing::HasSubstr;

TEST(Utf8, EveryCodePointComesBack) {
  for (char32_t c = 0; c <= kMaxCodePoint; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(text, c);
    std::size_t at = 0;
    ASSERT_EQ(next_code_point(text, at, "text"), c);
    ASSERT_EQ(at, text.size());
  }
}

TEST(Utf8, RefusesWhatIsNone) {
  for (const std::string bad :
       {"\x80", "\xC3", "\xC0\xAF", "\xC1\xBF", "\xE0\x80\xAF", "\xE2\x82", "\xED\xA0\x80",
        "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xC3\x28"}) {
    const std::string text = "ab" + bad;
    std::size_t at = 2;
    EXPECT_THAT(test::refusal([&] { next_code_point(text, at, "the text"); }),
                HasSubstr("the text: at byte 2: "));
  }
}

TEST(Utf8, Properties) {
  for (const char32_t c : {U'a', U'Z', U'é', U'ß', U'λ', U'я', U'中', U'ʰ', U'א', U'𝒜'})
    EXPECT_TRUE(in_category(c, "L")) << static_cast<uint32_t>(c);
  for (const char32_t c : {U'0', U'9', U'²', U'½', U'Ⅷ', U'٣', U'①', U'𝟘'})
    EXPECT_TRUE(in_category(c, "N")) << static_cast<uint32_t>(c);
  EXPECT_TRUE(in_category(U'\u0301', "Mn"));
  for (const char32_t c :
       {U' ', U'\t', U'\n', U'\r', U'\v', U'\u0085', U'\u00A0', U'\u3000', U'\u2028'})
    EXPECT_TRUE(is_space(c)) << static_cast<uint32_t>(c);
  for (const char32_t c : {U'_', U'-', U'\0', U'€', U'\u0301', U'\u200B', U'😀', U'\uFFFF'})
    EXPECT_FALSE(is_space(c)) << static_cast<uint32_t>(c);
}

// The expected texts are those of Python's bytes.decode("utf-8", errors="replace").
TEST(Utf8, WhatIsNoneIsReplaced) {
  const std::string r = "\uFFFD";
  EXPECT_EQ(with_replacements("a\xFF"
                              "b"),
            "a" + r + "b");
  EXPECT_EQ(with_replacements("\xE4\xB8"), r);
  EXPECT_EQ(with_replacements("\xE4\xB8"
                              "a"),
            r + "a");
  EXPECT_EQ(with_replacements("\xF0\x9F\x98"
                              "a"),
            r + "a");
  EXPECT_EQ(with_replacements("\xF0\x9F\xC3\xA9"), r + "é");
  EXPECT_EQ(with_replacements("\xED\xA0\x80"), r + r + r);
  EXPECT_EQ(with_replacements("\xF4\x90\x80\x80"), r + r + r + r);
  EXPECT_EQ(with_replacements("\xC0\xAF\x80"), r + r + r);
  EXPECT_EQ(with_replacements("é中😀\n"), "é中😀\n");
}

TEST(Utf8, CharactersAndClusters) {
  EXPECT_EQ(last_character("aé"), 1u);
  EXPECT_EQ(last_character("中"), 0u);
  EXPECT_EQ(grapheme_end("e\u0301x", 0), 3u);
  EXPECT_EQ(grapheme_end("\r\nx", 0), 2u);
  EXPECT_EQ(grapheme_end("ab", 1), 2u);
}

TEST(Utf8, NormalFormsJoinAcrossAscii) {
  EXPECT_EQ(normal_form("abe\u0301", NormalForm::kNfc), "abé");
  EXPECT_EQ(normal_form("e\u0301e\u0301 é", NormalForm::kNfc), "éé é");
  EXPECT_EQ(normal_form("", NormalForm::kNfd), "");
  EXPECT_EQ(normal_form("plain", NormalForm::kNfkc), "plain");
}

}  // namespace
}  // namespace runtime::tokenizer
