// Checks the tables of SentencePiece. A comparison with real tables is in trained_vocabularies.py.
#include <gmock/gmock.h>

#include <cstring>

#include "runtime/tokenizer/normalizer.h"
#include "tests/runtime/tokenizer/documents.h"

namespace runtime::tokenizer {
namespace {

using testing::HasSubstr;

std::string base64(const std::string& bytes) {
  const char* digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k)
      bits = bits << 8 | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0);
    for (int k = 3; k >= 0; --k) text += digits[(bits >> (6 * k)) & 63];
  }
  return text;
}

// A table that replaces "a" by the text that begins at byte `index` of the replacements.
std::string table(uint32_t index, const std::string& replacements) {
  std::vector<uint32_t> units(128);
  units[0] = 1 << 10;                       // the root: its children lie at 1 xor their byte
  units[1 ^ 'a'] = 'a' | 1 << 8 | 1 << 10;  // ends a key, whose leaf is beside it
  units[1 ^ 'a' ^ 1] = uint32_t{1} << 31 | index;
  const auto size = static_cast<uint32_t>(units.size() * sizeof(uint32_t));
  std::string bytes(sizeof(size) + size, '\0');
  std::memcpy(bytes.data(), &size, sizeof(size));
  std::memcpy(bytes.data() + sizeof(size), units.data(), size);
  return bytes + replacements;
}

std::string normalized(const std::string& bytes, const std::string& text) {
  Stretch stretch{text, true};
  test::read_json(read_normalizer, R"({"type": "Precompiled", "precompiled_charsmap": ")" +
                                       base64(bytes) + "\"}")(stretch);
  return stretch.text;
}

TEST(Precompiled, ReplacesWhatIsInTheTable) {
  const std::string replacements("xyz\0é\0", 7);
  EXPECT_EQ(normalized(table(0, replacements), "bab"), "bxyzb");
  EXPECT_EQ(normalized(table(1, replacements), "a"), "yz");
  EXPECT_EQ(normalized(table(4, replacements), "aé"), "éé");
  // The text of a short cluster is replaced as a whole where its beginning is in the table.
  EXPECT_EQ(normalized(table(0, replacements), "a\u0301b"), "xyzb");
  EXPECT_EQ(normalized(table(0, replacements), "a\u0301\u0301\u0301b"), "xyz\u0301\u0301\u0301b");
}

TEST(Precompiled, BrokenTables) {
  EXPECT_EQ(normalized(table(500, "x"), "ab"), "b");
  EXPECT_EQ(normalized(table(1, "é"), "ab"), "b");  // within a character
  const auto refused = [](const std::string& bytes) {
    return test::refusal([&] { normalized(bytes, "a"); });
  };
  for (const std::string& bytes :
       {std::string(), std::string("\1\0\0\0x", 5), std::string("\0\0\0\0", 4),
        std::string("\xFF\xFF\xFF\xFF"
                    "1234",
                    8)})
    EXPECT_THAT(refused(bytes), HasSubstr("expected a table of SentencePiece"));
  EXPECT_THAT(refused(table(0, "\xFF")), HasSubstr("begins no character"));
  EXPECT_THAT(test::refusal([] {
                test::read_json(read_normalizer,
                                R"({"type": "Precompiled", "precompiled_charsmap": "A-"})");
              }),
              HasSubstr("file: part.precompiled_charsmap is \"A-\"; expected base 64"));
}

}  // namespace
}  // namespace runtime::tokenizer
