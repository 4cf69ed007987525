// Checks axes, marks and margins of plots.
#include "tools/plot/plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "runtime/terminal/text.h"

namespace tools::plot {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(AxisOfAPlot, PlacesNumbersLinearlyOrByLogarithm) {
  Plot plot{"", "x", "y", true, false, {{"", {{0.01, 10}, {100, 30}}}}};
  const Axis x = axis_of(plot, false), y = axis_of(plot, true);
  EXPECT_DOUBLE_EQ(x.place(0.01), 0);
  EXPECT_DOUBLE_EQ(x.place(1), 0.5);
  EXPECT_DOUBLE_EQ(x.place(100), 1);
  EXPECT_DOUBLE_EQ(y.place(15), 0.25);
  EXPECT_DOUBLE_EQ(y.at(0.25), 15);
  EXPECT_NEAR(x.at(0.5), 1, 1e-12);
  EXPECT_THAT(y.ticks, testing::ElementsAre(10, 15, 20, 25, 30));
  EXPECT_THAT(x.ticks, testing::Pointwise(testing::DoubleNear(1e-9),
                                          std::vector<double>{0.01, 0.1, 1, 10, 100}));
}

TEST(AxisOfAPlot, OfWholeNumbersHasWholeTicks) {
  const Plot plot{"", "trial", "", false, false, {{"", {{0, 0.5}, {1, 1.5}}}}};
  EXPECT_THAT(axis_of(plot, false).ticks, testing::ElementsAre(0, 1));
  EXPECT_GT(axis_of(plot, true).ticks.size(), 2u);
}

TEST(AxisOfAPlot, OfOneValueOrNoneHasARange) {
  const Axis one = axis_of(Plot{"", "", "", false, false, {{"", {{5, 5}}}}}, false);
  EXPECT_DOUBLE_EQ(one.place(5), 0.5);
  EXPECT_TRUE(axis_of(Plot{}, false).ticks.empty());
}

TEST(TextPlot, MarksStandWhereThePointsAre) {
  const std::string text = text_plot(
      {"title", "x", "y", false, false, {{"one", {{0, 0}, {10, 10}, {5, 5}}}}}, 0, 11, 11);
  const std::vector<std::string> lines = lines_of(text);
  EXPECT_EQ(lines[0], "         y | title");
  EXPECT_EQ(lines[1], "        10 |          o");
  EXPECT_EQ(lines[6], "         5 |     o");
  EXPECT_EQ(lines[11], "         0 |o");
  EXPECT_EQ(lines[12], "           ++-+-+-+-+--");
  EXPECT_EQ(lines[13], "            0 2 4 6 8");
  EXPECT_EQ(lines[14], "                 x");
}

TEST(TextPlot, SeriesHaveLetters) {
  const std::string text =
      text_plot({"",
                 "x",
                 "y",
                 true,
                 false,
                 {{"left", {{1, 0}, {-1, 5}}}, {"right", {{100, 1}}}, {"both", {{1, 0}}}}},
                0, 10, 5);
  const std::vector<std::string> lines = lines_of(text);
  EXPECT_EQ(lines[1], "         1 |         b");
  EXPECT_EQ(lines[5], "         0 |*");
  EXPECT_THAT(text, testing::HasSubstr("a: left\n            b: right\n"));
  EXPECT_EQ(text_plot({}), "");
}

// The bar of each line stands in the same column, whatever the axis is called.
TEST(TextPlot, TheMarginHoldsTheNameOfTheAxis) {
  const std::vector<std::string> lines = lines_of(
      text_plot({"t", "x", "validation_loss", false, false, {{"", {{0, 0}, {10, 1}}}}}, 0, 11, 3));
  EXPECT_EQ(lines[0], "validation_loss | t");
  EXPECT_EQ(lines[1], "              1 |          o");
  EXPECT_EQ(lines[3], "              0 |o");
  EXPECT_EQ(lines[4], "                ++-+-+-+-+--");
}

// A line that the terminal breaks would move the marks away from their axis.
TEST(TextPlot, FitsTheTerminal) {
  const Plot plot{"a title that is rather long",
                  "a long name of an axis",
                  "the name of the vertical axis, longer than any margin",
                  false,
                  false,
                  {{"one of several settings, all of them long", {{0, 0}, {1000, 1}}},
                   {"名前 of wide characters that does not fit at all", {{1, 1}}}}};
  for (const int columns : {30, 60, 80, 120}) {
    const std::vector<std::string> lines = lines_of(text_plot(plot, columns));
    for (const std::string& line : lines)
      EXPECT_LE(runtime::terminal::width(line), static_cast<size_t>(columns)) << line;
    EXPECT_THAT(lines[1], testing::EndsWith("a")) << "the largest point is there";
  }
}

TEST(TextPlot, ManySeriesHaveDifferentMarks) {
  Plot plot{"", "x", "y"};
  for (int i = 0; i < 64; ++i) {
    plot.series.push_back({"series ", {{i, i}}});
    plot.series.back().name += std::to_string(i);
  }
  const std::string text = text_plot(plot, 0, 64, 64);
  EXPECT_THAT(text, testing::HasSubstr("A: series 26\n"));
  EXPECT_THAT(text, testing::HasSubstr("9: series 61\n            .: 2 more series\n"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '*'), 0);
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
}  // namespace tools::plot
