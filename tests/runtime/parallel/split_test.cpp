// Checks units, cutting and joining of tensor-parallel slices.
#include "runtime/parallel/split.h"

#include <gtest/gtest.h>

namespace runtime::parallel {
namespace {

using graph::Dims;

std::vector<std::byte> numbered(size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i);
  return bytes;
}

TEST(Split, UnitsAreDealtOutEvenly) {
  const Split heads = {.axis = 1, .blocks = 3, .whole = 10, .unit = 2};
  EXPECT_EQ(slice_of(heads, 0, 2).length, 6);
  EXPECT_EQ(slice_of(heads, 1, 2).begin, 6);
  EXPECT_EQ(slice_of(heads, 1, 2).length, 4);
  EXPECT_EQ(local_dims({4, 30}, slice_of(heads, 1, 2)), (Dims{4, 12}));
  EXPECT_EQ(whole_dims({4, 12}, slice_of(heads, 1, 2)), (Dims{4, 30}));
}

// Two rows of two blocks of three elements.
TEST(Split, CutTakesAPartOfEveryBlock) {
  const Split s = slice_of({.axis = 1, .blocks = 2, .whole = 3}, 1, 2);
  const std::vector<std::byte> part = cut(numbered(12), {2, 6}, s);
  EXPECT_EQ(part,
            (std::vector<std::byte>{std::byte{2}, std::byte{5}, std::byte{8}, std::byte{11}}));
}

TEST(Split, JoinIsTheInverse) {
  const Dims dims = {4, 6, 2};
  const std::vector<std::byte> whole = numbered(4 * 6 * 2 * 2);
  for (const Split& s : {Split{.axis = 1, .blocks = 2, .whole = 3}, Split{.axis = 0, .whole = 4},
                         Split{.axis = 1, .whole = 6, .unit = 2}, Split{}}) {
    for (const int ranks : {1, 2, 3}) {
      std::vector<std::vector<std::byte>> parts;
      for (int r = 0; r < ranks; ++r)
        parts.push_back(cut(whole, dims, s.is_whole() ? s : slice_of(s, r, ranks)));
      EXPECT_EQ(join(parts, dims, s), whole);
    }
  }
}

TEST(Split, AFlattenedImageIsCutInEveryPixel) {
  const Split channels = slice_of({.axis = 3, .whole = 8}, 0, 2);
  const auto flat = through_view(channels, {2, 3, 3, 8}, {2, 72});
  ASSERT_TRUE(flat);
  EXPECT_EQ(flat->axis, 1);
  EXPECT_EQ(flat->blocks, 9);
  EXPECT_EQ(local_dims({2, 72}, *flat), (Dims{2, 36}));
  EXPECT_EQ(through_view(channels, {2, 3, 3, 8}, {2, 9, 8})->axis, 2);
  EXPECT_FALSE(through_view(channels, {2, 3, 3, 8}, {36, 4}));
}

// Heads of a width of 4 that lie side by side, as an axis of their own and back.
TEST(Split, ThroughAViewOfHeads) {
  Split heads;
  heads.axis = 2, heads.whole = 24, heads.unit = 4;
  heads = slice_of(heads, 1, 2);
  const auto apart = through_view(heads, {2, 3, 24}, {2, 3, 6, 4});
  ASSERT_TRUE(apart);
  EXPECT_EQ(apart->axis, 2);
  EXPECT_EQ(local_dims({2, 3, 6, 4}, *apart), (Dims{2, 3, 3, 4}));
  EXPECT_EQ(apart->begin, 3);
  const auto together = through_view(*apart, {2, 3, 6, 4}, {2, 3, 24});
  ASSERT_TRUE(together);
  EXPECT_TRUE(together->is_like(heads));
  EXPECT_EQ(together->begin, 12);
  heads.unit = 2;  // may be cut inside of a head
  EXPECT_FALSE(through_view(heads, {2, 3, 24}, {2, 3, 6, 4}));
}

}  // namespace
}  // namespace runtime::parallel
