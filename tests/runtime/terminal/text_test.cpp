// Checks widths, shortening and folding of text.
#include "runtime/terminal/text.h"

#include <gtest/gtest.h>

namespace runtime::terminal {
namespace {

TEST(Width, IsThatOfATerminal) {
  EXPECT_EQ(width(""), 0u);
  EXPECT_EQ(width("conv1"), 5u);
  EXPECT_EQ(width("Größe"), 5u);
  EXPECT_EQ(width("画像"), 4u);     // wide characters
  EXPECT_EQ(width("e\u0301"), 1u);  // an accent that stands above the letter before it
  EXPECT_EQ(width("\xFF\xFE"), 2u) << "not UTF-8";
}

TEST(Shortened, KeepsWhatFits) {
  EXPECT_EQ(shortened("conv1", 5), "conv1");
  EXPECT_EQ(shortened("convolution", 6), "conv..");
  EXPECT_EQ(shortened("native:sgd:avx512", 8, Keep::kEnd), "..avx512");
  EXPECT_EQ(shortened("画像画像", 6), "画像..");
  EXPECT_EQ(shortened("画像画像", 7), "画像..") << "no half of a character";
  EXPECT_EQ(shortened("画像画像", 7, Keep::kEnd), "..画像");
  EXPECT_EQ(shortened("Größe der Schicht", 5), "Grö..");
  EXPECT_EQ(shortened("long", 1), ".");
}

TEST(Padded, FillsColumnsAndNotBytes) {
  EXPECT_EQ(padded("ä", 3), "ä  ");
  EXPECT_EQ(padded("画", 3, true), " 画");
  EXPECT_EQ(padded("long", 2), "long");
}

TEST(Folded, BreaksAtSpaces) {
  EXPECT_EQ(folded("one two three\nfour\n", 0), "one two three\nfour\n");
  EXPECT_EQ(folded("one two three\nfour\n", 8), "one two\n  three\nfour\n");
  EXPECT_EQ(folded("one two three", 13), "one two three");
  EXPECT_EQ(folded("name   one two three", 14, 7), "name   one two\n       three");
  EXPECT_EQ(folded("größe größe größe", 11), "größe größe\n  größe");
}

TEST(Folded, KeepsLongWordsAndCommandsWhole) {
  EXPECT_EQ(folded("file   /a/very/long/path", 10, 7), "file   /a/very/long/path");
  EXPECT_EQ(folded("see /a/very/long/path for it", 10), "see /a/very/long/path\n  for it");
  EXPECT_EQ(folded("next: runtime train x.toml", 10), "next: runtime train x.toml");
  EXPECT_EQ(folded("next: wait a moment", 12), "next: wait a\n  moment");
}

}  // namespace
}  // namespace runtime::terminal
