// Checks that the search finds the limit with few trials.
#include "tools/tune/batch_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace tools::tune {
namespace {

// Searches where all sizes up to `limit` fit; counts the calls and refuses to be asked twice.
struct Asked {
  int64_t limit;
  std::set<int64_t> sizes = {};
  int64_t search(const BatchSearch& search) {
    return largest_that_fits(search, [this](int64_t size) {
      EXPECT_TRUE(sizes.insert(size).second) << size << " was asked for twice";
      EXPECT_GT(size, 0);
      return size <= limit;
    });
  }
};

TEST(BatchSearch, FindsTheLimitItself) {
  for (int64_t limit = 0; limit < 300; ++limit) {
    for (const int64_t start : {1, 2, 16, 100})
      EXPECT_EQ(Asked{limit}.search({.start = start}), limit) << "start " << start;
  }
}

TEST(BatchSearch, FindsTheLargestMultiple) {
  for (int64_t limit = 0; limit < 200; ++limit) {
    Asked asked{limit};
    EXPECT_EQ(asked.search({.start = 16, .multiple = 3}), limit / 3 * 3) << limit;
    for (const int64_t size : asked.sizes) EXPECT_EQ(size % 3, 0) << size;
  }
}

TEST(BatchSearch, TriesNothingAboveTheMost) {
  for (const int64_t most : {16, 17, 100, 128}) {
    Asked asked{1 << 20};
    EXPECT_EQ(asked.search({.start = 16, .most = most}), most);
    EXPECT_EQ(*asked.sizes.rbegin(), most);
    EXPECT_EQ(Asked{20}.search({.start = 16, .most = most}), std::min<int64_t>(20, most));
  }
}

TEST(BatchSearch, IsAsPreciseAsAskedFor) {
  for (int64_t limit = 1; limit < 5000; limit += 7) {
    Asked asked{limit};
    const int64_t found = asked.search({.start = 16, .precision = 0.05});
    const int64_t bad = *asked.sizes.upper_bound(limit);
    EXPECT_LE(found, limit);
    EXPECT_EQ(found, *std::prev(asked.sizes.upper_bound(limit)));
    EXPECT_LE(bad - found, std::max(1.0, 0.05 * static_cast<double>(found))) << limit;
  }
}

TEST(BatchSearch, TakesFewTrials) {
  Asked asked{1000000};
  asked.search({.start = 16});
  EXPECT_LE(asked.sizes.size(), 17u + 20u);  // doublings, and bisections of [2^19, 2^20]
}

}  // namespace
}  // namespace tools::tune
