// Checks where labels at the ends of curves stand.
#include "tools/report/end_labels.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tools::report {
namespace {

constexpr double kApart = 0.075, kExact = 1e-12;

void expect_near(const std::vector<double>& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], kExact) << i;
}

TEST(EndLabels, StandBesideTheirCurves) {
  expect_near(places_of_labels({}), {});
  expect_near(places_of_labels({{1, 0.2}, {1, 0.9}, {1, 0.5}}), {0.2, 0.9, 0.5});
}

// Curves that end elsewhere do not push each other away, however close their ends are in height.
TEST(EndLabels, DoNotMoveForOnesThatAreFar) {
  expect_near(places_of_labels({{1, 0.2}, {0.5, 0.2}, {0.25, 0.21}}), {0.2, 0.2, 0.21});
}

// Two that would overlap move apart by as much as text needs, in both directions.
TEST(EndLabels, MoveAsLittleAsTextNeeds) {
  expect_near(places_of_labels({{1, 0.5}, {1, 0.5}}), {0.5 - kApart / 2, 0.5 + kApart / 2});
  expect_near(places_of_labels({{1, 0.51}, {0.99, 0.5}, {1, 0.9}}),
              {0.505 + kApart / 2, 0.505 - kApart / 2, 0.9});
}

TEST(EndLabels, StayInTheDrawing) {
  expect_near(places_of_labels({{1, 0}, {1, 0}}), {0, kApart});
  expect_near(places_of_labels({{1, 1}, {1, 1}}), {1 - kApart, 1});
  const std::vector<double> many = places_of_labels(std::vector<CurveEnd>(64, {1, 0.3}));
  EXPECT_NEAR(*std::min_element(many.begin(), many.end()), 0, kExact);
  EXPECT_NEAR(*std::max_element(many.begin(), many.end()), 1, kExact);
}

}  // namespace
}  // namespace tools::report
