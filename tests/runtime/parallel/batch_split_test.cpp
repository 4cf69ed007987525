// Checks that every sample is computed once, and how rows are dealt out.
#include "runtime/parallel/batch_split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace runtime::parallel {
namespace {

using Rows = std::vector<int64_t>;

// The rows of all ranks in rank order, without padding.
Rows all_rows(int64_t global_rows, BatchSplit split) {
  Rows all;
  for (split.rank = 0; split.rank < split.world_size; ++split.rank) {
    for (const int64_t row : rows_of_rank(global_rows, split)) {
      if (row >= 0) all.push_back(row);
    }
  }
  return all;
}

Rows counted(int64_t count) {
  Rows rows(count);
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

TEST(BatchSplit, LargestRemaindersGoToTheLowerRanks) {
  EXPECT_EQ(shares(10, {.world_size = 4}), (Rows{3, 3, 2, 2}));
  EXPECT_EQ(shares(1, {.world_size = 3}), (Rows{1, 0, 0}));
}

TEST(BatchSplit, SharesFollowTheWeights) {
  EXPECT_EQ(shares(10, {.world_size = 2, .weights = {3, 1}}), (Rows{8, 2}));
  EXPECT_EQ(shares(9, {.world_size = 3, .weights = {0.5, 1, 1.5}}), (Rows{2, 3, 4}));
  EXPECT_EQ(shares(5, {.world_size = 2, .weights = {1e-9, 1}}), (Rows{0, 5}));
}

TEST(BatchSplit, EverySampleOnceInEveryForm) {
  for (int64_t rows = 1; rows <= 40; ++rows) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      const BatchSplit plain{.world_size = ranks};
      BatchSplit weighted = plain, micro = plain, shards = plain;
      for (int r = 0; r < ranks; ++r) weighted.weights.push_back(1.0 + r * r);
      micro.micro_batch = 3;
      shards.virtual_shards = 12;
      for (const BatchSplit& split : {plain, weighted, micro, shards})
        EXPECT_EQ(all_rows(rows, split), counted(rows)) << rows << " on " << ranks;
    }
  }
}

TEST(BatchSplit, ARankWithoutASampleTakesPart) {
  EXPECT_EQ(rows_of_rank(1, {.rank = 2, .world_size = 3}), (Rows{-1}));
}

TEST(BatchSplit, MicroStepsAreAsManyOnEveryRank) {
  BatchSplit split{.world_size = 2, .weights = {3, 1}, .micro_batch = 2};
  EXPECT_EQ(micro_steps(10, split), 4);  // rank 0 has 8 rows
  EXPECT_EQ(rows_of_rank(10, split).size(), 8u);
  split.rank = 1;
  EXPECT_EQ(rows_of_rank(10, split), (Rows{8, 9, -1, -1, -1, -1, -1, -1}));
  split.micro_batch = 0;
  EXPECT_EQ(micro_steps(10, split), 1);
}

// Virtual shards have the same rows in the same shapes, whichever rank computes them.
TEST(BatchSplit, VirtualShardsDoNotDependOnTheRanks) {
  const auto blocks = [](int64_t rows, int ranks) {
    Rows all;
    BatchSplit split{.world_size = ranks, .virtual_shards = 12};
    for (split.rank = 0; split.rank < ranks; ++split.rank) {
      const Rows own = rows_of_rank(rows, split);
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  };
  for (const int64_t rows : {1, 7, 12, 250}) {
    const Rows one = blocks(rows, 1);
    EXPECT_EQ(one.size(), static_cast<size_t>((rows + 11) / 12 * 12));
    for (const int ranks : {2, 3, 4, 5, 7, 12}) {
      Rows many = blocks(rows, ranks);
      ASSERT_GE(many.size(), one.size());
      EXPECT_TRUE(std::all_of(many.begin() + static_cast<int64_t>(one.size()), many.end(),
                              [](int64_t row) { return row == -1; }));
      many.resize(one.size());
      EXPECT_EQ(many, one) << rows << " on " << ranks;
    }
  }
}

}  // namespace
}  // namespace runtime::parallel
