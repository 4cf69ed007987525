// Checks each pre-tokenizer. The expected pieces are those of the library tokenizers 0.23.
#include "runtime/tokenizer/pre_tokenizer.h"

#include <gmock/gmock.h>

#include "tests/runtime/tokenizer/documents.h"

namespace runtime::tokenizer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct PreTokenizerCase {
  std::string json, text;
  std::vector<std::string> expected;
};

const PreTokenizerCase kPreTokenizerCases[] = {
    {R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true})",
     "It's  we'll x\u00B2!\n \u00E9",
     {"\u0120It", "'s", "\u0120", "\u0120we", "'ll", "\u0120x", "\u00C2\u00B2", "!", "\u010A",
      "\u0120\u00C3\u00A9"}},
    {R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false})",
     "a \u00E9",
     {"a\u0120\u00C3\u00A9"}},
    {R"({"type":"BertPreTokenizer"})",
     "Hey, you!  it's $5\u2026x\u3000y",
     {"Hey", ",", "you", "!", "it", "'", "s", "$", "5", "\u2026", "x", "y"}},
    {R"({"type":"Whitespace"})",
     "don't x_1 \u00E9\u0301! \u200D a\u00ADb",
     {"don", "'", "t", "x_1", "\u00E9\u0301", "!", "\u200D", "a", "\u00AD", "b"}},
    {R"({"type":"WhitespaceSplit"})", " a\u00A0b\u2028c ", {"a", "b", "c"}},
    {R"({"type":"Punctuation","behavior":"Isolated"})", "a!!b.", {"a", "!", "!", "b", "."}},
    {R"({"type":"Punctuation","behavior":"Contiguous"})", "a!!b.", {"a", "!!", "b", "."}},
    {R"({"type":"Digits","individual_digits":true})", "a12\u00B2b", {"a", "1", "2", "\u00B2", "b"}},
    {R"({"type":"Digits","individual_digits":false})", "a12\u00B2b", {"a", "12\u00B2", "b"}},
    {R"({"type":"CharDelimiterSplit","delimiter":"-"})", "-a--b", {"a", "b"}},
    {R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":true})",
     "a  b c",
     {"\u2581a", "\u2581", "\u2581b", "\u2581c"}},
    {R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":true})",
     " a",
     {"\u2581a"}},
    {R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"never","split":false})",
     "a b",
     {"a\u2581b"}},
    {R"({"type":"Metaspace","replacement":"_","add_prefix_space":true})", "a b", {"_a", "_b"}},
    {R"({"type":"Split","pattern":{"String":"-"},"behavior":"Removed","invert":false})",
     "the-final--x-",
     {"the", "final", "x"}},
    {R"({"type":"Split","pattern":{"String":"-"},"behavior":"Removed","invert":true})",
     "the-final--x-",
     {"-", "-", "-", "-"}},
    {R"({"type":"Split","pattern":{"String":"-"},"behavior":"Isolated","invert":false})",
     "the-final--x-",
     {"the", "-", "final", "-", "-", "x", "-"}},
    {R"({"type":"Split","pattern":{"String":"-"},"behavior":"Isolated","invert":true})",
     "the-final--x-",
     {"the", "-", "final", "-", "-", "x", "-"}},
    {R"({"type":"Split","pattern":{"String":"-"},"behavior":"MergedWithPrevious","invert":false})",
     "the-final--x-",
     {"the-", "final-", "-", "x-"}},
    {R"({"type":"Split","pattern":{"String":"-"},"behavior":"MergedWithPrevious","invert":true})",
     "the-final--x-",
     {"the", "-final", "-", "-x", "-"}},
    {R"({"type":"Split","pattern":{"String":"-"},"behavior":"MergedWithNext","invert":false})",
     "the-final--x-",
     {"the", "-final", "-", "-x", "-"}},
    {R"({"type":"Split","pattern":{"String":"-"},"behavior":"MergedWithNext","invert":true})",
     "the-final--x-",
     {"the-", "final-", "-", "x-"}},
    {R"({"type":"Split","pattern":{"String":"-"},"behavior":"Contiguous","invert":false})",
     "the-final--x-",
     {"the", "-", "final", "--", "x", "-"}},
    {R"({"type":"Split","pattern":{"String":"-"},"behavior":"Contiguous","invert":true})",
     "the-final--x-",
     {"the", "-", "final", "--", "x", "-"}},
    {R"({"type":"Split","pattern":{"Regex":"[0-9]{1,2}"},"behavior":"Isolated","invert":false})",
     "a1234b",
     {"a", "12", "34", "b"}},
    {R"({"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},{"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":true}]})",
     "a b",
     {"\u2581a", "b"}},
    {R"({"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},{"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":true}]})",
     " a b",
     {"a", "b"}},
};

std::vector<std::string> pieces_of(const PreTokenizer& pre_tokenizer, const std::string& text) {
  std::vector<std::string> pieces;
  pre_tokenizer({text, true}, [&](const Piece& piece) { pieces.emplace_back(piece.text); });
  return pieces;
}

TEST(PreTokenizer, CutsAsTheLibraryDoes) {
  for (const PreTokenizerCase& c : kPreTokenizerCases)
    EXPECT_EQ(pieces_of(test::read_json(read_pre_tokenizer, c.json), c.text), c.expected) << c.json;
}

std::vector<std::string> uncoded(const std::string& text) {
  std::vector<std::string> list;
  std::size_t at = 0;  // pieces hold visible characters, one for each byte
  for (const std::string& piece : pieces_of(byte_level(false, true), text)) {
    std::size_t bytes = 0;
    for (const char c : piece) bytes += (static_cast<uint8_t>(c) & 0xC0) != 0x80;
    list.push_back(text.substr(at, bytes));
    at += bytes;
  }
  return list;
}

// The expected pieces are those of Perl 5.36, whose character classes also follow Unicode.
TEST(ByteLevel, CutsByThePatternOfGpt2) {
  EXPECT_THAT(uncoded("Hello world"), ElementsAre("Hello", " world"));
  EXPECT_THAT(uncoded("It's we'll I'd'x 'S"),
              ElementsAre("It", "'s", " we", "'ll", " I", "'d", "'", "x", " '", "S"));
  EXPECT_THAT(uncoded("a  b\n\nc \n d  "),
              ElementsAre("a", " ", " b", "\n", "\n", "c", " \n", " d", "  "));
  EXPECT_THAT(uncoded("x=12.5²!? 3"), ElementsAre("x", "=", "12", ".", "5²", "!?", " 3"));
  EXPECT_THAT(uncoded(" été\u00A0naïve\u3000中文٣٤ \U0001F600ok"),
              ElementsAre(" été", "\u00A0", "naïve", "\u3000", "中文", "٣٤", " \U0001F600", "ok"));
  EXPECT_THAT(uncoded(" "), ElementsAre(" "));
  EXPECT_THAT(uncoded(" \t"), ElementsAre(" \t"));
  EXPECT_THAT(uncoded("\t a"), ElementsAre("\t", " a"));
}

TEST(PreTokenizer, RefusesByName) {
  const auto refused = [](const std::string& json) {
    return test::refusal([&] { test::read_json(read_pre_tokenizer, json); });
  };
  EXPECT_THAT(refused(R"({"type": "UnicodeScripts"})"),
              HasSubstr("the type \"UnicodeScripts\" is not supported; expected one of ByteLevel"));
  EXPECT_THAT(refused(R"({"type": "Split", "pattern": {"String": "a"}, "behavior": "Kept"})"),
              HasSubstr("file: part.behavior is \"Kept\"; expected Removed, Isolated"));
  EXPECT_THAT(refused(R"({"type": "CharDelimiterSplit", "delimiter": "ab"})"),
              HasSubstr("expected a single character"));
  EXPECT_THAT(refused(R"({"type": "Metaspace", "prepend_scheme": "last"})"),
              HasSubstr("file: part.prepend_scheme is \"last\"; expected always, first or never"));
}

}  // namespace
}  // namespace runtime::tokenizer
