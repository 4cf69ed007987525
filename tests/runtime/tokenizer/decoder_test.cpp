// Checks each decoder. The expected texts are those of the library tokenizers 0.23.
#include "runtime/tokenizer/decoder.h"

#include <gmock/gmock.h>

#include "tests/runtime/tokenizer/documents.h"

namespace runtime::tokenizer {
namespace {

using testing::HasSubstr;

struct DecoderCase {
  std::string json;
  std::vector<std::string> tokens;
  std::string expected;
};

const DecoderCase kDecoderCases[] = {
    {R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true})",
     {"\u0120Hi", "\u00C3\u00A9", "\u4E2D"},
     " Hi\u00E9\u4E2D"},
    {R"({"type":"BPEDecoder","suffix":"</w>"})", {"he", "llo</w>", "you</w>"}, "hello you"},
    {R"({"type":"WordPiece","prefix":"##","cleanup":true})",
     {"##a", "do", "##n", "'", "t", "##!", "!", " n't"},
     "##a don ' t!! n't"},
    {R"({"type":"WordPiece","prefix":"##","cleanup":false})", {"a", "##b", "."}, "ab ."},
    {R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":true})",
     {"\u2581a\u2581b", "\u2581c"},
     "ab c"},
    {R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"never","split":true})",
     {"\u2581a\u2581b", "\u2581c"},
     " a b c"},
    {R"({"type":"ByteFallback"})",
     {"a", "<0xC3>", "<0xA9>", "<0xE4>", "b", "<0xg1>", "<0x41>"},
     "a\uFFFD\uFFFD\uFFFDb<0xg1>A"},
    {R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":1}]})",
     {"\u2581\u2581a", "<0x41>", "\u2581"},
     " aA"},
    {R"({"type":"Replace","pattern":{"Regex":"a+"},"content":"-"})", {"aab", "ba"}, "-bb-"},
    {R"({"type":"Strip","content":"H","start":2,"stop":1})", {"HHHeyHH", "yH"}, "HeyHy"},
};

TEST(Decoder, MakesTextAsTheLibraryDoes) {
  for (const DecoderCase& c : kDecoderCases) {
    std::vector<std::string> tokens = c.tokens;
    test::read_json(read_decoder, c.json)(tokens);
    std::string text;
    for (const std::string& token : tokens) text += token;
    EXPECT_EQ(text, c.expected) << c.json;
  }
}

TEST(Decoder, RefusesByName) {
  const auto refused = [](const std::string& json) {
    return test::refusal([&] { test::read_json(read_decoder, json); });
  };
  EXPECT_THAT(refused(R"({"type": "CTC"})"),
              HasSubstr("the type \"CTC\" is not supported; expected one of ByteLevel"));
  EXPECT_THAT(refused(R"({"type": "Strip", "content": "", "start": 1, "stop": 0})"),
              HasSubstr("expected a character"));
  EXPECT_THAT(refused(R"({"type": "Strip", "content": "a", "start": -1, "stop": 0})"),
              HasSubstr("file: part.start is -1; expected an integer in 0..1048576"));
}

}  // namespace
}  // namespace runtime::tokenizer
