// Checks GPT-2's tokenizer.
#include <gmock/gmock.h>

#include "runtime/tokenizer/model.h"
#include "runtime/tokenizer/utf8.h"
#include "tests/runtime/tokenizer/documents.h"

namespace runtime::tokenizer {
namespace {

using test::encode;
using testing::ElementsAre;
using testing::HasSubstr;

std::string decode(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  return tokenizer.decode(ids);
}

// The vocabulary: all bytes in the order of GPT-2's table, then the merged tokens.
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
  TokenizerPointer make() const {
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
  std::string all_bytes;
  for (int i = 0; i < 256; ++i) {
    all[i] = i;
    all_bytes += static_cast<char>(i);
  }
  EXPECT_EQ(decode(*tokenizer, all), all_bytes);
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
  EXPECT_EQ(decode(*tokenizer, {kSpaceWer}), " wer");
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
    return test::refusal([&] {
      make_gpt2_tokenizer({"vocab.json", vocabulary}, {"merges.txt", merges});
    });
  };
  const std::string whole = "{" + good.vocabulary_.substr(1) + "}";
  EXPECT_THAT(refused("{\"a\": 0", ""), HasSubstr("vocab.json: no JSON object"));
  EXPECT_THAT(refused("[1]", ""), HasSubstr("no JSON object"));
  EXPECT_THAT(refused("{\"a\": -1}", ""),
              HasSubstr("vocab.json: the vocabulary.a is -1; expected an integer in 0..16777215"));
  EXPECT_THAT(refused("{\"a\": \"x\"}", ""), HasSubstr("is \"x\""));
  EXPECT_THAT(refused("{\"a\": 0}", ""), HasSubstr("no token is the byte 0 alone"));
  EXPECT_THAT(refused(whole, "#version: 0.2\nl o\nl x\n"),
              HasSubstr("merges.txt: the line \"l x\" is no merge"));
  EXPECT_THAT(refused(whole, "lo"), HasSubstr("the line \"lo \" is no merge"));
}

}  // namespace
}  // namespace runtime::tokenizer
