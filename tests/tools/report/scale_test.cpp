// Checks scales of numbers and words.
#include "tools/report/scale.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tools::report {
namespace {

using testing::DoubleNear;

TEST(Scale, NumbersOfOneMagnitudeAreLinear) {
  const Scale scale({"10", "20", "15"});
  EXPECT_THAT(scale.place("15"), DoubleNear(0.5, 1e-12));
  EXPECT_TRUE(scale.varies());
}

TEST(Scale, NumbersOfSeveralMagnitudesAreLogarithmic) {
  const Scale scale({"0.0001", "0.01", "1"});
  EXPECT_THAT(scale.place("0.01"), DoubleNear(0.5, 1e-12));
}

TEST(Scale, FewNumbersAreTheirOwnLabels) {
  const Scale scale({"32", "256", "64", "32"});
  std::vector<std::string> texts;
  for (const Scale::Label& label : scale.labels()) texts.push_back(label.text);
  EXPECT_THAT(texts, testing::ElementsAre("32", "64", "256"));
}

TEST(Scale, WordsLieAtEqualDistances) {
  const Scale scale({R"("sgd")", R"("adamw")", R"("sgd")"});
  EXPECT_THAT(scale.place(R"("sgd")"), DoubleNear(0.25, 1e-12));
  EXPECT_THAT(scale.place(R"("adamw")"), DoubleNear(0.75, 1e-12));
  EXPECT_TRUE(std::isnan(scale.place(R"("lion")")));
  EXPECT_EQ(scale.labels()[1].text, "adamw");
}

TEST(Scale, AValueThatIsMissingHasNoPlace) {
  const Scale scale({"1", "", "3"});
  EXPECT_TRUE(std::isnan(scale.place("")));
  EXPECT_THAT(scale.place("3"), DoubleNear(1, 1e-12));
}

TEST(Scale, OneValueDoesNotVary) {
  EXPECT_FALSE(Scale({"3", "3"}).varies());
  EXPECT_FALSE(Scale(std::vector<std::string>{}).varies());
}

TEST(Scale, LongWordsAreCutBetweenCharacters) {
  const Scale scale({"\"" + std::string(16, 'a') + "\xC3\xA4\xC3\xA4\xC3\xA4\"", "\"b\""});
  EXPECT_EQ(scale.labels()[0].text, std::string(16, 'a') + "\xE2\x80\xA6");
}

}  // namespace
}  // namespace tools::report
