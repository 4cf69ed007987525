// Checks the numbers and the text of constants.
#include "runtime/graph/constant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace runtime::graph {
namespace {

using testing::ElementsAre;

TEST(Constant, HasMinusOneWhereACoordinateLiesOutside) {
  // Windows of two elements with stride 2, one element of padding, in a row of four.
  const Constant windows{{3, 2}, {{{-1, {2, 1}}, 4, 1}}};
  EXPECT_THAT(windows.elements(), ElementsAre(-1, 0, 1, 2, 3, -1));
  EXPECT_FALSE(windows.counts_up());
}

TEST(Constant, AddsCoordinatesTimesStrides) {
  const Constant transposed{{2, 3}, {{{0, {0, 1}}, 3, 2}, {{0, {1, 0}}, 2, 1}}};
  EXPECT_THAT(transposed.elements(), ElementsAre(0, 2, 4, 1, 3, 5));
  EXPECT_FALSE(transposed.counts_up());
}

TEST(Constant, KnowsThatItCountsUp) {
  EXPECT_TRUE((Constant{{2, 3}, {{{0, {1, 0}}, 2, 3}, {{0, {0, 1}}, 3, 1}}}.counts_up()));
  EXPECT_TRUE((Constant{{1, 3}, {{{0, {5, 1}}, 3, 1}}}.counts_up()));
  EXPECT_FALSE((Constant{{4}, {{{0, {1}}, 3, 1}}}.counts_up()));
  EXPECT_FALSE((Constant{{3}, {{{1, {1}}, 4, 1}}}.counts_up()));
}

TEST(Constant, TextTellsConstantsApart) {
  const Constant a{{2, 3}, {{{0, {1, 0}}, 2, 3}}};
  Constant b = a;
  EXPECT_EQ(a.text(), b.text());
  b.coordinates[0].size = 3;
  EXPECT_NE(a.text(), b.text());
}

}  // namespace
}  // namespace runtime::graph
