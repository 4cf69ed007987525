// Checks buckets, groups and cuts of flat buffers.
#include "runtime/parallel/flat_layout.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace runtime::parallel {
namespace {

TEST(FlatLayout, OneBucketHoldsAll) {
  const FlatLayout layout = lay_out({100, 4, 64}, {});
  EXPECT_EQ(layout.offsets, (std::vector<uint64_t>{0, 128, 192}));
  ASSERT_EQ(layout.buckets.size(), 1u);
  EXPECT_EQ(layout.buckets[0].bytes(), 256u);
  EXPECT_EQ(layout.used_bytes, 256u);
}

TEST(FlatLayout, TheFirstBucketToBeReadyHoldsTheLastParametersAndIsSmall) {
  const FlatLayout layout =
      lay_out({256, 256, 256, 64}, {.bucket_bytes = 512, .first_bucket_bytes = 64});
  ASSERT_EQ(layout.buckets.size(), 3u);
  EXPECT_EQ(layout.buckets[2].bytes(), 64u);
  EXPECT_EQ(layout.buckets[1].bytes(), 512u);
  EXPECT_EQ(layout.buckets[0].bytes(), 256u);
}

TEST(FlatLayout, BucketsCoverTheBufferAndCanBeCut) {
  const std::vector<uint64_t> sizes = {4, 700, 64, 1, 129, 3000, 8};
  for (const int ranks : {1, 2, 3, 4, 7}) {
    for (const uint64_t bucket : {1, 100, 1000, 100000}) {
      // A GPU's alignment is larger than that of a CPU.
      const uint64_t alignment = bucket == 100 ? 64 : 256;
      const FlatLayout layout = lay_out(sizes, {.world_size = ranks,
                                                .bucket_bytes = bucket,
                                                .first_bucket_bytes = 1,
                                                .alignment = alignment});
      uint64_t at = 0;
      for (const Bucket& b : layout.buckets) {
        EXPECT_EQ(b.begin, at);
        EXPECT_EQ(b.bytes() % (alignment * static_cast<uint64_t>(ranks)), 0u);
        at = b.end;
      }
      EXPECT_EQ(at, layout.bytes);
      for (size_t i = 0; i < sizes.size(); ++i) {
        EXPECT_EQ(layout.offsets[i] % alignment, 0u);
        EXPECT_LE(layout.offsets[i] + sizes[i],
                  i + 1 < sizes.size() ? layout.offsets[i + 1] : layout.used_bytes);
      }
    }
  }
}

TEST(FlatLayout, ParametersThatAllRanksHaveLieTogether) {
  const std::vector<bool> whole = {true, false, false, true, true, false};
  const FlatLayout plain = lay_out({64, 64, 64, 64, 64, 64}, {}, {}, whole);
  EXPECT_EQ(plain.offsets, (std::vector<uint64_t>{192, 0, 64, 256, 320, 128}));
  EXPECT_TRUE(plain.buckets.at(0).groups.empty());
  const FlatLayout apart = lay_out({64, 64, 64, 64, 64, 64}, {}, {1, 0, 1, 1, 0, 1}, whole);
  EXPECT_EQ(apart.offsets, (std::vector<uint64_t>{128, 0, 256, 192, 64, 320}));
  EXPECT_EQ(apart.buckets.at(0).groups, (std::vector<uint64_t>{128}));
}

// The bytes of each group in a bucket.
std::vector<std::pair<uint64_t, uint64_t>> ranges(const Bucket& bucket, size_t groups) {
  std::vector<std::pair<uint64_t, uint64_t>> all;
  for (size_t group = 0; group < groups; ++group) {
    const Bucket range = bucket.of_group(group);
    all.emplace_back(range.begin, range.end);
  }
  return all;
}

using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;

TEST(FlatLayout, GroupsLieOneBehindTheOtherInEachBucket) {
  const FlatLayout layout =
      lay_out({64, 8, 256, 64, 128, 4},
              {.world_size = 2, .bucket_bytes = 400, .first_bucket_bytes = 1}, {0, 2, 0, 1, 0, 2});
  EXPECT_EQ(layout.offsets, (std::vector<uint64_t>{0, 64, 128, 512, 384, 640}));
  ASSERT_EQ(layout.buckets.size(), 3u);
  EXPECT_EQ(ranges(layout.buckets[0], 3), (Ranges{{0, 64}, {64, 64}, {64, 128}}));
  EXPECT_EQ(ranges(layout.buckets[1], 3), (Ranges{{128, 512}, {512, 576}, {576, 640}}));
  EXPECT_EQ(ranges(layout.buckets[2], 3), (Ranges{{640, 640}, {640, 640}, {640, 768}}));
  const Bucket second = layout.buckets[1].partition(1, 2);
  EXPECT_EQ(ranges(second, 3), (Ranges{{384, 512}, {512, 576}, {576, 640}}));
  EXPECT_EQ(ranges(lay_out({64, 8}, {}).buckets[0], 2), (Ranges{{0, 128}, {128, 128}}));
}

TEST(FlatLayout, APartOfTheWholeHasPartsOfBuckets) {
  FlatLayout layout;
  layout.bytes = 1024;
  layout.buckets = {{0, 256, {128}}, {256, 768, {640}}, {768, 1024, {1024}}};
  const FlatLayout part = owned_range(layout, 1, 2);  // bytes 512..1023
  EXPECT_EQ(part.bytes, 512u);
  ASSERT_EQ(part.buckets.size(), 2u);
  EXPECT_EQ(part.buckets[0].end, 256u);
  EXPECT_EQ(ranges(part.buckets[0], 2), (Ranges{{0, 128}, {128, 256}}));
  EXPECT_EQ(ranges(part.buckets[1], 2), (Ranges{{256, 512}, {512, 512}}));
}

// 64 bytes of each buffer are left for the loss.
TEST(FlatLayout, ABufferThatIsTooLargeIsCutBetweenBuckets) {
  const FlatLayout layout = lay_out({256, 128, 64, 300}, {.largest_buffer = 576});
  EXPECT_EQ(layout.offsets, (std::vector<uint64_t>{0, 256, 384, 448}));
  EXPECT_EQ(layout.cuts, std::vector<uint64_t>{256});
  ASSERT_EQ(layout.buckets.size(), 2u);
  EXPECT_EQ(layout.buckets[1].end, 768u);
  EXPECT_TRUE(lay_out({256, 128, 64, 300}, {.largest_buffer = 832}).cuts.empty());
  FlatLayout part = owned_range(layout, 0, 2);
  EXPECT_EQ(part.cuts, std::vector<uint64_t>{256});
  part = owned_range(layout, 1, 2);
  EXPECT_TRUE(part.cuts.empty());
}

TEST(FlatLayout, NoPieceIsLargerThanABuffer) {
  const std::vector<uint64_t> sizes = {4, 700, 64, 1, 129, 3000, 8, 500, 500, 500};
  for (const int ranks : {1, 2, 3, 7}) {
    for (const uint64_t bucket : {uint64_t{100}, uint64_t{1000}, UINT64_MAX}) {
      const FlatLayoutOptions options{
          .world_size = ranks, .bucket_bytes = bucket, .largest_buffer = 4096};
      const FlatLayout layout = lay_out(sizes, options);
      std::vector<uint64_t> ends = layout.cuts;
      ends.push_back(layout.bytes);
      uint64_t begin = 0;
      for (const uint64_t end : ends) {
        EXPECT_LT(begin, end);
        EXPECT_LE(end - begin, options.most_bytes());
        begin = end;
      }
      for (const uint64_t cut : layout.cuts) {
        EXPECT_EQ(layout.buckets[bucket_of(layout, cut)].begin, cut);
        EXPECT_EQ(cut % (64 * static_cast<uint64_t>(ranks)), 0u) << "of partitions, too";
      }
      EXPECT_FALSE(layout.cuts.empty());
    }
  }
}

TEST(FlatLayout, NothingHasNoBucket) {
  EXPECT_TRUE(lay_out({}, {.world_size = 2}).buckets.empty());
}

TEST(FlatLayout, ManyBucketsOfFewParameters) {
  const std::vector<uint64_t> sizes(40, 32 << 10);
  EXPECT_EQ(lay_out(sizes, {}).buckets.size(), 1u);
  EXPECT_EQ(lay_out(sizes, {.buckets = 16}).buckets.size(), 14u);   // 3 parameters each
  EXPECT_EQ(lay_out(sizes, {.buckets = 400}).buckets.size(), 20u);  // 64 KiB
}

TEST(FlatLayout, ShardsOfAllRanksAreTheWhole) {
  const FlatLayout layout = lay_out({700, 64, 129}, {.world_size = 3, .bucket_bytes = 64});
  std::vector<std::byte> whole(layout.bytes), shards(layout.bytes);
  for (size_t i = 0; i < whole.size(); ++i) whole[i] = static_cast<std::byte>(i * 7 + i / 256);
  for (int r = 0; r < 3; ++r) {
    uint64_t bytes = 0;
    for (const Held& h : held(layout, {0, layout.bytes}, r, 3)) {
      EXPECT_EQ(h.at, bytes);
      bytes += h.end - h.begin;
      std::copy(whole.begin() + static_cast<std::ptrdiff_t>(h.begin),
                whole.begin() + static_cast<std::ptrdiff_t>(h.end),
                shards.begin() + static_cast<std::ptrdiff_t>(layout.bytes / 3 * r + h.at));
    }
    EXPECT_EQ(bytes, layout.bytes / 3);
  }
  EXPECT_EQ(join_shards(shards, layout, 3), whole);
}

// The second parameter lies on ranks 1 and 2.
TEST(FlatLayout, AParameterMayLieOnSeveralRanks) {
  const FlatLayout layout = lay_out({128, 256}, {.world_size = 3});
  const std::vector<Held> first = held(layout, {128, 384}, 0, 3);
  EXPECT_TRUE(first.empty());
  const std::vector<Held> second = held(layout, {128, 384}, 1, 3);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].begin, 128u);
  EXPECT_EQ(second[0].end, 256u);
  EXPECT_EQ(second[0].at, 0u);
}

}  // namespace
}  // namespace runtime::parallel
