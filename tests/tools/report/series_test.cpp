// Checks that shortened curves keep ends, peaks and means.
#include "tools/report/series.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace tools::report {
namespace {

std::vector<Point> wave(size_t count) {
  std::vector<Point> points;
  for (size_t i = 0; i < count; ++i)
    points.push_back({static_cast<double>(i), std::sin(static_cast<double>(i) * 0.01)});
  return points;
}

bool is_less(const Point& a, const Point& b) { return a.y < b.y; }

TEST(Series, FewPointsStayAsTheyAre) {
  const std::vector<Point> points = wave(100);
  EXPECT_EQ(decimate(points, 100).size(), 100u);
  EXPECT_EQ(decimate({}, 100).size(), 0u);
}

TEST(Series, NoPeakGetsLost) {
  std::vector<Point> points = wave(1000000);
  points[123457].y = 50;
  points[765431].y = -70;
  const std::vector<Point> kept = decimate(points, 1000);
  EXPECT_LE(kept.size(), 1000u);
  EXPECT_GE(kept.size(), 500u);
  const auto [least, largest] = std::minmax_element(kept.begin(), kept.end(), is_less);
  EXPECT_EQ(least->x, 765431);
  EXPECT_EQ(largest->x, 123457);
}

TEST(Series, PointsHaveTheMeanOfThoseTheyStandFor) {
  std::vector<Point> points;
  for (int i = 0; i < 3002; ++i) points.push_back({1.0 * i, i % 3 == 0 ? 9.0 : 0.0});
  for (const Point& p : decimate(points, 202))
    EXPECT_NEAR(p.mean, 3, 1e-9)
        << p.x;  // 100 runs of 30 points, and the ends have that beside them
  EXPECT_TRUE(std::isnan(decimate(wave(10), 20)[5].mean));
}

TEST(Series, TheEndsStayAndTheOrderToo) {
  const std::vector<Point> kept = decimate(wave(12345), 40);
  EXPECT_EQ(kept.front().x, 0);
  EXPECT_EQ(kept.back().x, 12344);
  EXPECT_TRUE(std::is_sorted(kept.begin(), kept.end(),
                             [](const Point& a, const Point& b) { return a.x < b.x; }));
}

TEST(Series, AConstantKeepsOnePointOfEachRun) {
  std::vector<Point> points(1000);
  for (size_t i = 0; i < points.size(); ++i) points[i] = {static_cast<double>(i), 1};
  EXPECT_LE(decimate(points, 100).size(), 100u);
  EXPECT_GE(decimate(points, 100).size(), 50u);
}

}  // namespace
}  // namespace tools::report
