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

// The order of an epoch, computed place by place.
std::vector<int64_t> computed(int64_t size, uint64_t seed, int64_t epoch) {
  std::vector<int64_t> order;
  for (int64_t place = 0; place < size; ++place)
    order.push_back(sample_at(place, size, seed, epoch));
  return order;
}

TEST(ComputedOrder, IsAPermutation) {
  for (const int64_t size : {1, 2, 3, 4, 5, 100, 1001, 4096, 65537}) {
    std::vector<int64_t> order = computed(size, 7, 3);
    std::ranges::sort(order);
    std::vector<int64_t> all(static_cast<std::size_t>(size));
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(order, all) << size;
  }
}

TEST(ComputedOrder, DependsOnSeedAndEpoch) {
  EXPECT_EQ(computed(1000, 1, 2), computed(1000, 1, 2));
  EXPECT_NE(computed(1000, 1, 2), computed(1000, 1, 3));
  EXPECT_NE(computed(1000, 1, 2), computed(1000, 2, 2));
  EXPECT_NE(computed(1000, 1, 2), computed(1000, uint64_t{1} << 32 | 1, 2));
}

// These numbers may never change, either.
TEST(ComputedOrder, StaysTheSameAcrossVersions) {
  constexpr int64_t kSamples = 1'000'000'000;
  EXPECT_EQ(sample_at(0, kSamples, 42, 0), 665647046);
  EXPECT_EQ(sample_at(1, kSamples, 42, 0), 401182229);
  EXPECT_EQ(sample_at(kSamples - 1, kSamples, 42, 1), 857787332);
  EXPECT_EQ(sample_at(12345, int64_t{1} << 40, 7, 9), 770746212147);
}

// Chi-squared of `counts`, which should be equal.
double chi_squared_of(const std::vector<double>& counts) {
  const double expected =
      std::accumulate(counts.begin(), counts.end(), 0.0) / static_cast<double>(counts.size());
  double sum = 0;
  for (const double count : counts) sum += (count - expected) * (count - expected) / expected;
  return sum;
}

// Over many epochs a place has each sample equally often, and so has the distance of two places
// that follow each other.
TEST(ComputedOrder, IsFair) {
  constexpr int kEpochs = 20000, kSize = 1000, kParts = 10;
  std::vector<double> first(kParts), distance(kParts);
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const int64_t a = sample_at(17, kSize, 5, epoch), b = sample_at(18, kSize, 5, epoch);
    ++first[static_cast<std::size_t>(a * kParts / kSize)];
    ++distance[static_cast<std::size_t>((b - a + kSize) % kSize * kParts / kSize)];
  }
  EXPECT_LT(chi_squared_of(first), 27.9);  // exceeded with probability 0.001
  EXPECT_LT(chi_squared_of(distance), 27.9);
}

// The samples of a batch lie all over the data set: places beside each other are no
// neighbours in it, and hardly one keeps its place.
TEST(ComputedOrder, MixesWithinAnEpoch) {
  constexpr int64_t kSize = 100000;
  const std::vector<int64_t> order = computed(kSize, 3, 0);
  int64_t kept = 0, neighbours = 0;
  for (int64_t i = 0; i + 1 < kSize; ++i) {
    const int64_t here = order[static_cast<std::size_t>(i)];
    kept += here == i;
    neighbours += std::abs(order[static_cast<std::size_t>(i) + 1] - here) == 1;
  }
  EXPECT_LE(kept, 8);  // 1 is expected, 2 of neighbours
  EXPECT_LE(neighbours, 10);
}

TEST(EpochOrder, IsComputedWhereAListWouldBeLong) {
  std::pmr::memory_resource* const memory = std::pmr::get_default_resource();
  constexpr int64_t kMany = int64_t{1} << 40;
  EpochOrder many(kMany, true, 5, false, std::pmr::null_memory_resource());
  many.begin(3);
  EXPECT_EQ(many[kMany - 1], sample_at(kMany - 1, kMany, 5, 3));
  EpochOrder straight(kMany, false, 5, false, std::pmr::null_memory_resource());
  straight.begin(0);
  EXPECT_EQ(straight[kMany - 1], kMany - 1);
  EpochOrder few(1001, true, 5, false, memory);
  for (const int64_t epoch : {0, 4}) {
    few.begin(epoch);
    const std::vector<int64_t> expected = test::epoch_order(1001, true, 5, epoch);
    for (int64_t i = 0; i < 1001; ++i) ASSERT_EQ(few[i], expected[static_cast<std::size_t>(i)]);
  }
}

// Runs that older programs have saved go on with their list.
TEST(EpochOrder, MayBeAListWhateverTheNumber) {
  constexpr int64_t kMany = EpochOrder::kLongestList + 1;
  EpochOrder listed(kMany, true, 5, true, std::pmr::get_default_resource());
  listed.begin(0);
  const std::vector<int64_t> expected = test::epoch_order(kMany, true, 5, 0);
  for (const int64_t place : {int64_t{0}, kMany / 2, kMany - 1})
    EXPECT_EQ(listed[place], expected[static_cast<std::size_t>(place)]);
}

// Every sample is the first one about equally often: chi-squared with 9 degrees of freedom.
TEST(EpochOrder, IsFair) {
  constexpr int kEpochs = 10000, kSize = 10;
  std::vector<double> counts(kSize);
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    ++counts[static_cast<std::size_t>(test::epoch_order(kSize, true, 5, epoch)[0])];
  }
  EXPECT_LT(chi_squared_of(counts), 27.9);  // exceeded with probability 0.001
}

}  // namespace
}  // namespace runtime::data
