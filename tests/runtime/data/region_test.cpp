// Checks the place, shape and reach of random regions.
#include "runtime/data/region.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace runtime::data {
namespace {

TEST(RandomRegion, LiesInTheImageAndHasTheSharesAskedFor) {
  constexpr ImageSize kImage{300, 400};
  constexpr int kDraws = 4000;
  double areas = 0, ratios = 0;
  for (int64_t i = 0; i < kDraws; ++i) {
    const Region r = RandomRegion{0.25, 7, i % 5, i}.choose(kImage);
    ASSERT_GE(r.top, 0);
    ASSERT_GE(r.left, 0);
    ASSERT_LE(r.top + r.size.height, kImage.height);
    ASSERT_LE(r.left + r.size.width, kImage.width);
    const auto height = static_cast<double>(r.size.height);
    const auto width = static_cast<double>(r.size.width);
    EXPECT_GT(height * width / (300 * 400), 0.24);
    EXPECT_NEAR(std::log(width / height), 0, std::log(4.0 / 3) + 0.01);
    areas += height * width / (300 * 400);
    ratios += std::log(width / height);
  }
  // A region of the share a fits if its ratio is at least 4/3 a, which has the probability
  // min(1, log(a) / (2 log(3/4))); otherwise it is drawn again. This gives the two means.
  EXPECT_NEAR(areas / kDraws, 0.521, 0.015);
  EXPECT_NEAR(ratios / kDraws, 0.041, 0.015);
}

TEST(RandomRegion, ReachesAllBorders) {
  std::set<int64_t> tops, lefts, bottoms, rights;
  for (int64_t i = 0; i < 2000; ++i) {
    const Region r = RandomRegion{0.2, 1, 0, i}.choose({8, 8});
    tops.insert(r.top);
    lefts.insert(r.left);
    bottoms.insert(r.top + r.size.height);
    rights.insert(r.left + r.size.width);
  }
  EXPECT_EQ(*tops.begin(), 0);
  EXPECT_EQ(*lefts.begin(), 0);
  EXPECT_EQ(*bottoms.rbegin(), 8);
  EXPECT_EQ(*rights.rbegin(), 8);
}

TEST(RandomRegion, DependsOnSeedEpochAndSampleOnly) {
  constexpr ImageSize kImage{500, 375};
  const RandomRegion region{0.08, 1, 2, 3};
  EXPECT_EQ(region.choose(kImage), (RandomRegion{0.08, 1, 2, 3}.choose(kImage)));
  EXPECT_NE(region.choose(kImage), (RandomRegion{0.08, 2, 2, 3}.choose(kImage)));
  EXPECT_NE(region.choose(kImage), (RandomRegion{0.08, 1, 3, 3}.choose(kImage)));
  EXPECT_NE(region.choose(kImage), (RandomRegion{0.08, 1, 2, 4}.choose(kImage)));
}

// No region with half of the area of such an image has the right shape.
TEST(RandomRegion, OfAnImageThatIsTooLongIsItsCentre) {
  EXPECT_EQ((RandomRegion{0.5, 1, 2, 3}.choose({30, 400})), (Region{0, 180, {30, 40}}));
  EXPECT_EQ((RandomRegion{0.5, 1, 2, 3}.choose({400, 30})), (Region{180, 0, {40, 30}}));
  EXPECT_EQ((RandomRegion{1, 1, 2, 3}.choose({1, 1})), (Region{0, 0, {1, 1}}));
}

}  // namespace
}  // namespace runtime::data
