// Checks the random numbers of Philox, and that shuffles are fair and stay the same.
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "runtime/data/loader.h"
#include "runtime/data/philox.h"
#include "tests/runtime/data/files.h"

namespace runtime::data {
namespace {

// Known answers of the reference implementation (Random123, kat_vectors).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(rt::sdk::philox4x32_10({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(rt::sdk::philox4x32_10({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                                   {0xffffffff, 0xffffffff}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(rt::sdk::philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                                   {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(EpochOrder, IsAPermutation) {
  for (const int64_t size : {1, 2, 3, 100, 1001}) {
    std::vector<int64_t> order = test::epoch_order(size, true, 7, 3);
    std::sort(order.begin(), order.end());
    std::vector<int64_t> all(static_cast<std::size_t>(size));
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(order, all);
  }
}

TEST(EpochOrder, DependsOnSeedAndEpochOnly) {
  EXPECT_EQ(test::epoch_order(100, true, 1, 2), test::epoch_order(100, true, 1, 2));
  EXPECT_NE(test::epoch_order(100, true, 1, 2), test::epoch_order(100, true, 1, 3));
  EXPECT_NE(test::epoch_order(100, true, 1, 2), test::epoch_order(100, true, 2, 2));
  EXPECT_NE(test::epoch_order(100, true, 1, 2),
            test::epoch_order(100, true, uint64_t{1} << 32 | 1, 2));
}

TEST(EpochOrder, WithoutShuffleIsAscending) {
  EXPECT_THAT(test::epoch_order(4, false, 1, 2), testing::ElementsAre(0, 1, 2, 3));
}

// These numbers may never change, because runs of older versions must be repeatable.
TEST(EpochOrder, StaysTheSameAcrossVersions) {
  EXPECT_THAT(test::epoch_order(8, true, 42, 0), testing::ElementsAre(3, 6, 7, 4, 5, 0, 2, 1));
  EXPECT_THAT(test::epoch_order(8, true, 42, 1), testing::ElementsAre(6, 3, 4, 0, 7, 1, 5, 2));
}

// Every sample is the first one about equally often: chi-squared with 9 degrees of freedom.
TEST(EpochOrder, IsFair) {
  constexpr int kEpochs = 10000, kSize = 10;
  std::vector<double> counts(kSize);
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    ++counts[static_cast<std::size_t>(test::epoch_order(kSize, true, 5, epoch)[0])];
  }
  double chi_squared = 0;
  for (const double count : counts) {
    constexpr double kExpected = static_cast<double>(kEpochs) / kSize;
    chi_squared += (count - kExpected) * (count - kExpected) / kExpected;
  }
  EXPECT_LT(chi_squared, 27.9);  // exceeded with probability 0.001
}

}  // namespace
}  // namespace runtime::data
