#include "tools/trials/plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace tools::trials {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(Axis, PlacesNumbersLinearlyOrByLogarithm) {
  Plot plot{"", "x", "y", true, false, {{"", {{0.01, 10}, {100, 30}}}}};
  const Axis x(plot, false), y(plot, true);
  EXPECT_DOUBLE_EQ(x.place(0.01), 0);
  EXPECT_DOUBLE_EQ(x.place(1), 0.5);
  EXPECT_DOUBLE_EQ(x.place(100), 1);
  EXPECT_DOUBLE_EQ(y.place(15), 0.25);
  EXPECT_DOUBLE_EQ(y.at(0.25), 15);
  EXPECT_NEAR(x.at(0.5), 1, 1e-12);
  EXPECT_THAT(y.ticks(), testing::ElementsAre(10, 15, 20, 25, 30));
  EXPECT_THAT(x.ticks(), testing::Pointwise(testing::DoubleNear(1e-9),
                                            std::vector<double>{0.01, 0.1, 1, 10, 100}));
}

TEST(Axis, OfWholeNumbersHasWholeTicks) {
  const Plot plot{"", "trial", "", false, false, {{"", {{0, 0.5}, {1, 1.5}}}}};
  EXPECT_THAT(Axis(plot, false).ticks(), testing::ElementsAre(0, 1));
  EXPECT_GT(Axis(plot, true).ticks().size(), 2u);
}

TEST(Axis, OfOneValueOrNoneHasARange) {
  const Axis one(Plot{"", "", "", false, false, {{"", {{5, 5}}}}}, false);
  EXPECT_DOUBLE_EQ(one.place(5), 0.5);
  EXPECT_TRUE(Axis(Plot{}, false).empty());
  EXPECT_TRUE(Axis(Plot{}, false).ticks().empty());
}

TEST(TextPlot, MarksStandWhereThePointsAre) {
  const std::string text =
      text_plot({"title", "x", "y", false, false, {{"one", {{0, 0}, {10, 10}, {5, 5}}}}}, 11, 11);
  const std::vector<std::string> lines = lines_of(text);
  EXPECT_EQ(lines[0], "         y | title");
  EXPECT_EQ(lines[1], "        10 |          o");
  EXPECT_EQ(lines[6], "         5 |     o");
  EXPECT_EQ(lines[11], "         0 |o");
  EXPECT_EQ(lines[12], "           +-----------");
  EXPECT_EQ(lines[13], "            0 2 4 6 8 10  x");
}

TEST(TextPlot, SeriesHaveLetters) {
  const std::string text =
      text_plot({"",
                 "x",
                 "y",
                 true,
                 false,
                 {{"left", {{1, 0}, {-1, 5}}}, {"right", {{100, 1}}}, {"both", {{1, 0}}}}},
                10, 5);
  const std::vector<std::string> lines = lines_of(text);
  EXPECT_EQ(lines[1], "         1 |         b");
  EXPECT_EQ(lines[5], "         0 |*");
  EXPECT_THAT(text, testing::HasSubstr("a: left\n            b: right\n"));
  EXPECT_EQ(text_plot({}), "");
}

TEST(SvgPlot, HasAMarkForEachPointAtItsPlace) {
  const std::string svg = svg_plot(
      {"<title> & more", "x", "y", false, false, {{"a<b", {{0, 0}, {10, 20}}}, {"c", {{5, 10}}}}});
  EXPECT_THAT(svg, testing::StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_THAT(svg, testing::EndsWith("</svg>\n"));
  EXPECT_THAT(svg, testing::HasSubstr("&lt;title&gt; &amp; more"));
  // The drawing is 620 x 360 pixels, from (80, 40) on.
  EXPECT_THAT(svg, testing::HasSubstr("points=\"80.0,400.0 700.0,40.0\""));
  EXPECT_THAT(svg, testing::HasSubstr("cx=\"390.0\" cy=\"220.0\""));
  for (const char* element : {"text", "circle", "title", "svg"}) {
    const auto count = [&](const std::string& what) {
      size_t n = 0;
      for (size_t at = svg.find(what); at != std::string::npos; at = svg.find(what, at + 1)) ++n;
      return n;
    };
    const std::string name = element;
    if (name != "circle") {
      EXPECT_EQ(count("<" + name), count("</" + name + ">")) << name;
    }
  }
}

TEST(SvgPlot, WithoutPointsHasAxesOnly) {
  EXPECT_THAT(svg_plot({}), testing::Not(testing::HasSubstr("<circle")));
}

}  // namespace
}  // namespace tools::trials
