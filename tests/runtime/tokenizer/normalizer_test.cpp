// Checks each normalizer. The expected texts are those of the library tokenizers 0.23.
#include "runtime/tokenizer/normalizer.h"

#include <gmock/gmock.h>

#include "tests/runtime/tokenizer/documents.h"

namespace runtime::tokenizer {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct NormalizerCase {
  std::string json, text, expected;
};

const NormalizerCase kNormalizerCases[] = {
    {R"({"type":"NFC"})", "e\u0301a\u0323\u0302 \u1100\u1161\u11A8 \u212B",
     "\u00E9\u1EAD \uAC01 \u00C5"},
    {R"({"type":"NFD"})", "\u00E9 \uAC01 \uFB01", "e\u0301 \u1100\u1161\u11A8 \uFB01"},
    {R"({"type":"NFKC"})", "\uFB01 \uFF76\uFF9E \u00B2 \u00C5", "fi \u30AC 2 \u00C5"},
    {R"({"type":"NFKD"})", "\uFB01 \u00E9 \u2460", "fi e\u0301 1"},
    {R"({"type":"Lowercase"})", "\u00C0B \u0130 \u03A3\u0391\u03A3 \u01C4",
     "\u00E0b i\u0307 \u03C3\u03B1\u03C3 \u01C6"},
    {R"({"type":"StripAccents"})", "e\u0301 \u093E\u20DD x", "e  x"},
    {R"({"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true})",
     std::string("\t\u00C0\0b", 5) + "\uFFFD\u200Bc\u3000\u4E2Dx \u00E9\302\205",
     " abc  \u4E2D x e"},
    {R"({"type":"BertNormalizer","clean_text":false,"handle_chinese_chars":false,"strip_accents":null,"lowercase":false})",
     "\t\u00C0\u4E2D", "\t\u00C0\u4E2D"},
    {R"({"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":false,"strip_accents":true,"lowercase":false})",
     "\013\u00C0", "A"},
    {R"({"type":"Strip","strip_left":true,"strip_right":false})", " \u3000a \n", "a \n"},
    {R"({"type":"Strip","strip_left":false,"strip_right":true})", " a \u00A0\n", " a"},
    {R"({"type":"Prepend","prepend":"_"})", "ab", "_ab"},
    {R"({"type":"Replace","pattern":{"String":"a."},"content":"<>"})", "a.ab a.a", "<>ab <>a"},
    {R"({"type":"Replace","pattern":{"Regex":"a."},"content":"<>"})", "a.ab\na", "<><>\na"},
    {R"({"type":"Replace","pattern":{"Regex":"x*"},"content":"-"})", "axxb", "-a-b-"},
    {R"({"type":"Nmt"})", "a\001\u200Bb\u2581\t\177c\uFEFF", "a b  c "},
    {R"({"type":"ByteLevel"})", " \u00E9\n", "\u0120\u00C3\u00A9\u010A"},
    {R"({"type":"Sequence","normalizers":[{"type":"NFD"},{"type":"StripAccents"},{"type":"Lowercase"}]})",
     "\u00C9\u00C0", "ea"},
};

TEST(Normalizer, ChangesTextAsTheLibraryDoes) {
  for (const NormalizerCase& c : kNormalizerCases) {
    Stretch stretch{c.text, true};
    test::read_json(read_normalizer, c.json)(stretch);
    EXPECT_EQ(stretch.text, c.expected) << c.json;
  }
}

// Metaspace with the scheme "first" puts its mark only before the first character of a text.
TEST(Normalizer, SaysWhetherTheFirstCharacterIsLeft) {
  const auto is_at_start = [](const std::string& json, const std::string& text) {
    Stretch stretch{text, true};
    test::read_json(read_normalizer, json)(stretch);
    return stretch.at_start;
  };
  EXPECT_TRUE(is_at_start(R"({"type": "Strip"})", "a "));
  EXPECT_FALSE(is_at_start(R"({"type": "Strip"})", " a"));
  EXPECT_FALSE(is_at_start(R"({"type": "StripAccents"})", "\u0301a"));
  const std::string no_x = R"({"type": "Replace", "pattern": {"String": "x"}, "content": ""})";
  EXPECT_TRUE(is_at_start(no_x, "ax"));
  EXPECT_FALSE(is_at_start(no_x, "xa"));
}

TEST(Normalizer, RefusesByName) {
  const auto refused = [](const std::string& json) {
    return test::refusal([&] { test::read_json(read_normalizer, json); });
  };
  EXPECT_THAT(refused(R"({"type": "Append"})"),
              AllOf(HasSubstr("file: part: the type \"Append\" is not supported"),
                    HasSubstr("NFC, NFD"), HasSubstr("dataset.format = \"tokens\"")));
  EXPECT_THAT(refused(R"({"type": "Prepend", "prepend": 3})"),
              HasSubstr("file: part.prepend is 3; expected a string"));
  EXPECT_THAT(refused(R"({"type": "Strip", "strip_left": 1})"),
              HasSubstr("expected true or false"));
  EXPECT_THAT(refused(R"({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "x"}]})"),
              HasSubstr("file: part.normalizers[1]: the type \"x\""));
  EXPECT_THAT(refused(R"({"type": "Replace", "pattern": {"Regex": "("}, "content": ""})"),
              HasSubstr("file: part.pattern.Regex: \"(\" is no regular expression"));
  EXPECT_THAT(refused(R"({"type": "Replace", "pattern": {}, "content": ""})"),
              HasSubstr("expected an object with the key \"Regex\""));
  EXPECT_THAT(refused("[]"), HasSubstr("the key \"type\""));
  std::string nested = R"({"type": "NFC"})";
  for (int i = 0; i < 40; ++i) nested = R"({"type": "Sequence", "normalizers": [)" + nested + "]}";
  EXPECT_THAT(refused(nested), HasSubstr("expected an array, in fewer than 16 others"));
}

}  // namespace
}  // namespace runtime::tokenizer
