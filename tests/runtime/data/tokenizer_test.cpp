// Checks UTF-8, and tokenizers of characters, bytes, byte pairs and numbers.
#include "runtime/data/tokenizer.h"

#include <gmock/gmock.h>

#include <cstdio>

#include "runtime/data/utf8.h"
#include "tests/runtime/data/files.h"

namespace runtime::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int32_t> encode(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<int32_t> ids;
  tokenizer.encode(text, "text", [&](int32_t id) { ids.push_back(id); });
  return ids;
}

std::string decode(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  std::string text;
  for (const int32_t id : ids) text += tokenizer.decode(id);
  return text;
}

std::unique_ptr<const Tokenizer> make(const std::string& kind, const std::string& characters = "",
                                      int64_t vocabulary = 0) {
  DatasetOptions options;
  options.tokenizer = kind;
  return make_tokenizer(options, characters, vocabulary);
}

// ---- UTF-8

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
    EXPECT_THAT(test::message_of([&] { next_code_point(text, at, "the text"); }),
                HasSubstr("the text: at byte 2: "));
  }
}

TEST(Utf8, Classes) {
  for (const char32_t c : {U'a', U'Z', U'é', U'ß', U'λ', U'я', U'中', U'ʰ', U'א', U'𝒜'})
    EXPECT_EQ(classify(c), CharacterClass::kLetter) << static_cast<uint32_t>(c);
  for (const char32_t c : {U'0', U'9', U'²', U'½', U'Ⅷ', U'٣', U'①', U'𝟘'})
    EXPECT_EQ(classify(c), CharacterClass::kNumber) << static_cast<uint32_t>(c);
  for (const char32_t c : {U' ', U'\t', U'\n', U'\r', U'\v', U'\u0085', U'\u00A0', U'\u3000'})
    EXPECT_EQ(classify(c), CharacterClass::kSpace) << static_cast<uint32_t>(c);
  for (const char32_t c : {U'_', U'-', U'\0', U'€', U'\u0301', U'\u200B', U'😀', U'\uFFFF'})
    EXPECT_EQ(classify(c), CharacterClass::kOther) << static_cast<uint32_t>(c);
}

// ---- characters, bytes, numbers

TEST(CharacterTokenizer, IdsAreInTheOrderOfCodePoints) {
  const std::string text = "hé\nllo é€";
  const std::string characters = characters_of(text, "text");
  EXPECT_EQ(characters, "\n hloé€");
  const auto tokenizer = make("char", characters);
  EXPECT_EQ(tokenizer->vocabulary(), 7);
  EXPECT_THAT(encode(*tokenizer, "€\nhé"), ElementsAre(6, 0, 2, 5));
  EXPECT_EQ(decode(*tokenizer, encode(*tokenizer, text)), text);
}

TEST(CharacterTokenizer, NamesWhatItDoesNotKnow) {
  const auto tokenizer = make("char", "ab");
  EXPECT_THAT(test::message_of([&] { encode(*tokenizer, "abüa"); }),
              HasSubstr("text: at byte 2: the character 'ü' is none of the 2"));
  EXPECT_THAT(test::message_of([&] { encode(*tokenizer, "a\xFF"); }), HasSubstr("at byte 1"));
  EXPECT_THAT(test::message_of([&] { make("char", "aba"); }), HasSubstr("at byte 2"));
}

TEST(ByteTokenizer, TakesAnyByte) {
  const auto tokenizer = make("byte");
  EXPECT_EQ(tokenizer->vocabulary(), 256);
  EXPECT_THAT(encode(*tokenizer, "a\xFF"), ElementsAre(97, 255));
  EXPECT_EQ(decode(*tokenizer, {97, 255}), "a\xFF");
}

TEST(NumberTokenizer, ReadsAndWritesIds) {
  const auto tokenizer = make("", "", 100);
  EXPECT_THAT(encode(*tokenizer, " 7 99\n0 "), ElementsAre(7, 99, 0));
  EXPECT_EQ(decode(*tokenizer, {7, 99}), "7 99 ");
  for (const char* bad : {"7 100", "7 -1", "7 x", "7 99999999999"}) {
    EXPECT_THAT(test::message_of([&] { encode(*tokenizer, bad); }),
                HasSubstr("at byte 2: no token id; expected numbers in 0..99"));
  }
}

TEST(Tokenizer, RefusesAnUnknownKind) {
  EXPECT_THROW(make("word"), ConfigurationError);
  EXPECT_THROW(make("gpt2"), ConfigurationError);
}

// ---- GPT-2

std::vector<std::string> pieces(const std::string& text) {
  std::vector<std::string> list;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = gpt2_piece_end(text, at, "text");
    list.push_back(text.substr(at, end - at));
    at = end;
  }
  return list;
}

// The expected pieces are those of Perl 5.36, whose character classes also follow Unicode.
TEST(Gpt2, Pieces) {
  EXPECT_THAT(pieces("Hello world"), ElementsAre("Hello", " world"));
  EXPECT_THAT(pieces("It's we'll I'd'x 'S"),
              ElementsAre("It", "'s", " we", "'ll", " I", "'d", "'", "x", " '", "S"));
  EXPECT_THAT(pieces("a  b\n\nc \n d  "),
              ElementsAre("a", " ", " b", "\n", "\n", "c", " \n", " d", "  "));
  EXPECT_THAT(pieces("x=12.5²!? 3"), ElementsAre("x", "=", "12", ".", "5²", "!?", " 3"));
  EXPECT_THAT(pieces(" été\u00A0naïve\u3000中文٣٤ \U0001F600ok"),
              ElementsAre(" été", "\u00A0", "naïve", "\u3000", "中文", "٣٤", " \U0001F600", "ok"));
  EXPECT_THAT(pieces(" "), ElementsAre(" "));
  EXPECT_THAT(pieces(" \t"), ElementsAre(" \t"));
  EXPECT_THAT(pieces("\t a"), ElementsAre("\t", " a"));
}

// The vocabulary: all bytes in the order of GPT-2's table, then the merged tokens.
using Merges = std::vector<std::pair<std::string, std::string>>;

class Gpt2Files {
 public:
  explicit Gpt2Files(const Merges& merges) {
    int next = 256;
    for (int b = 0; b < 256; ++b) {
      const bool visible = (b > 32 && b < 127) || (b > 160 && b != 173);
      add(visible ? static_cast<char32_t>(b) : static_cast<char32_t>(next++));
    }
    merges_.text = "#version: 0.2\n";
    for (const auto& [left, right] : merges) {
      merges_.text += left + " " + right + "\n";
      add_text(left + right);
    }
  }
  std::unique_ptr<const Tokenizer> make() const {
    return make_gpt2_tokenizer({"vocab.json", "{" + vocabulary_.substr(1) + "}"}, merges_);
  }

  std::string vocabulary_;
  NamedText merges_{"merges.txt", ""};

 private:
  void add(char32_t character) {
    std::string text;
    append_utf8(text, character);
    add_text(text);
  }
  void add_text(const std::string& token) {
    const std::string escaped = token == "\"" || token == "\\" ? "\\" + token : token;
    vocabulary_ += ",\"" + escaped + "\":" + std::to_string(count_++);
  }
  int count_ = 0;
};

TEST(Gpt2, BytesAreTheirOwnTokensWithoutMerges) {
  const auto tokenizer = Gpt2Files(Merges{}).make();
  std::vector<int32_t> all(256);
  for (int i = 0; i < 256; ++i) all[i] = i;
  EXPECT_EQ(decode(*tokenizer, all), test::counting(256));
  EXPECT_THAT(encode(*tokenizer, "é \n"), ElementsAre(0xC3, 0xA9, ' ', '\n'));
}

TEST(Gpt2, MergesInTheOrderOfTheFileWithinAPiece) {
  // GPT-2 writes Ġ for the space.
  const auto tokenizer =
      Gpt2Files(Merges{{"l", "o"}, {"Ġ", "w"}, {"e", "r"}, {"lo", "w"}, {"Ġw", "er"}, {"a", "a"}})
          .make();
  enum { kLo = 256, kSpaceW, kEr, kLow, kSpaceWer, kAa };
  EXPECT_THAT(encode(*tokenizer, "low"), ElementsAre(kLow));
  EXPECT_THAT(encode(*tokenizer, "lower wer we"), ElementsAre(kLow, kEr, kSpaceWer, kSpaceW, 'e'));
  EXPECT_THAT(encode(*tokenizer, "l o"), ElementsAre('l', ' ', 'o'));
  EXPECT_THAT(encode(*tokenizer, "aaa aaaa"), ElementsAre(kAa, 'a', ' ', kAa, kAa));
  EXPECT_EQ(tokenizer->decode(kSpaceWer), " wer");
  EXPECT_EQ(decode(*tokenizer, encode(*tokenizer, "lower\nwer é 12")), "lower\nwer é 12");
}

TEST(Gpt2, LinesMayEndAsThoseOfWindows) {
  Gpt2Files files(Merges{{"l", "o"}, {"lo", "w"}});
  files.merges_.text = "#version: 0.2\r\nl o\r\nlo w\r\n\r\n";
  EXPECT_THAT(encode(*files.make(), "low"), ElementsAre(257));
}

TEST(Gpt2, ALongPieceTakesNoLongTime) {
  const auto tokenizer = Gpt2Files(Merges{{"a", "a"}, {"aa", "aa"}, {"aaaa", "aaaa"}}).make();
  EXPECT_EQ(encode(*tokenizer, std::string(200000, 'a')).size(), 25000u);
}

TEST(Gpt2, BrokenFiles) {
  const Gpt2Files good(Merges{{"l", "o"}});
  const auto refused = [&](const std::string& vocabulary, const std::string& merges) {
    return test::message_of([&] {
      make_gpt2_tokenizer({"vocab.json", vocabulary}, {"merges.txt", merges});
    });
  };
  const std::string whole = "{" + good.vocabulary_.substr(1) + "}";
  EXPECT_THAT(refused("{\"a\": 0", ""), HasSubstr("vocab.json: at byte 0: no JSON object"));
  EXPECT_THAT(refused("[1]", ""), HasSubstr("no JSON object"));
  EXPECT_THAT(refused("{\"a\": 1}", ""),
              HasSubstr("token \"a\" has the id 1; expected each of 0..0"));
  EXPECT_THAT(refused("{\"a\": 0, \"b\": 0}", ""), HasSubstr("expected each of 0..1 once"));
  EXPECT_THAT(refused("{\"a\": -1}", ""), HasSubstr("has the id -1"));
  EXPECT_THAT(refused("{\"a\": \"x\"}", ""), HasSubstr("has the id \"x\""));
  EXPECT_THAT(refused("{\"a\": 0}", ""), HasSubstr("no token is the byte 0 alone"));
  const std::string extra = whole.substr(0, whole.size() - 1) + ",\"中\":257}";
  EXPECT_THAT(refused(extra, ""), HasSubstr("a character for no byte"));
  EXPECT_THAT(refused(whole, "#version: 0.2\nl o\nl x\n"),
              HasSubstr("merges.txt: at byte 18: the line \"l x\" is no merge"));
  EXPECT_THAT(refused(whole, "lo"), HasSubstr("at byte 0: the line \"lo\" is no merge"));
}

}  // namespace
}  // namespace runtime::data
