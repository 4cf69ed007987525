// The parts of a product (backends/gpu/gemm.h): together they write what the whole product writes.
#include "backends/gpu/gemm.h"

#include <gtest/gtest.h>

#include <tuple>

namespace {

using backends::gpu::aligned_parts;
using backends::gpu::ColumnMajor;
using backends::gpu::counted_parts;
using backends::gpu::Gemm;

constexpr int64_t kMatrix = 64 * 64;  // elements from one matrix of a batch to the next

struct Sizes {
  int64_t m, n, k;
};

ColumnMajor matrix(int64_t rows, int64_t columns, bool transposed) {
  return {transposed ? columns : rows, transposed ? rows : columns, 64, kMatrix};
}

// A product in bfloat16 whose columns begin at multiples of 64 elements.
Gemm product(const Sizes& s, bool transpose_left, bool transpose_right, int32_t batch = 1) {
  Gemm gemm{};
  gemm.dtype = gemm.result = RT_BFLOAT16;
  gemm.m = s.m, gemm.n = s.n, gemm.k = s.k, gemm.batch = batch;
  gemm.left = matrix(s.m, s.k, transpose_left);
  gemm.right = matrix(s.k, s.n, transpose_right);
  gemm.d = matrix(s.m, s.n, false);
  gemm.transpose_left = transpose_left, gemm.transpose_right = transpose_right;
  return gemm;
}

int64_t place(const ColumnMajor& x, bool transposed, int32_t batch, int64_t row, int64_t column) {
  return batch * x.batch_stride + (transposed ? row * x.ld + column : column * x.ld + row);
}

// The operands hold small integers, so that no sum is rounded.
int left_value(int64_t at) { return static_cast<int>(at % 7) - 3; }
int right_value(int64_t at) { return static_cast<int>(at % 5) - 2; }

void run(const Gemm& g, std::vector<int>& d) {
  for (int32_t batch = 0; batch < g.batch; ++batch) {
    for (int64_t j = 0; j < g.n; ++j) {
      for (int64_t i = 0; i < g.m; ++i) {
        int sum = 0;
        for (int64_t k = 0; k < g.k; ++k) {
          sum += left_value(g.left_begin + place(g.left, g.transpose_left, batch, i, k)) *
                 right_value(g.right_begin + place(g.right, g.transpose_right, batch, k, j));
        }
        int& result = d[static_cast<size_t>(g.d_begin + place(g.d, false, batch, i, j))];
        result = g.adds ? result + sum : sum;
      }
    }
  }
}

std::vector<int> result_of(const std::vector<Gemm>& products) {
  std::vector<int> d(3 * kMatrix, 1000);
  for (const Gemm& g : products) run(g, d);
  return d;
}

using Parameters = std::tuple<bool, bool, int32_t>;
class Parts : public testing::TestWithParam<Parameters> {};

TEST_P(Parts, WriteWhatTheWholeProductWrites) {
  const auto [left, right, batch] = GetParam();
  for (const Sizes& s : {Sizes{17, 8, 8}, Sizes{16, 9, 8}, Sizes{16, 8, 11}, Sizes{19, 9, 11}}) {
    const Gemm whole = product(s, left, right, batch);
    const std::vector<Gemm> parts = aligned_parts(whole);
    // n is a column of the transposed right matrix only, k one of at least one untransposed order.
    const bool splits =
        s.m % 8 != 0 || (s.k % 8 != 0 && (left || !right)) || (s.n % 8 != 0 && right);
    ASSERT_EQ(parts.size(), splits ? 2u : 0u) << s.m << " " << s.n << " " << s.k;
    if (!splits) continue;
    EXPECT_EQ(result_of(parts), result_of({whole})) << s.m << " " << s.n << " " << s.k;
    for (const Gemm& part : parts) {  // each begins at a multiple of 16 bytes
      EXPECT_EQ(part.left_begin % 8 + part.right_begin % 8 + part.d_begin % 8, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Orders, Parts,
                         testing::Combine(testing::Bool(), testing::Bool(), testing::Values(1, 3)));

TEST(AlignedParts, AreNoneOfAnAlignedProduct) {
  EXPECT_TRUE(aligned_parts(product({16, 8, 24}, true, false)).empty());
  EXPECT_TRUE(aligned_parts(product({16, 9, 24}, true, false)).empty()) << "n is no column";
}

// 12 elements of 4 bytes are a multiple of 16 bytes, 12 of 2 bytes are not.
TEST(AlignedParts, DependOnTheTypeOfTheMatrixWhoseColumnsASizeIs) {
  Gemm wide = product({12, 8, 8}, true, false);
  wide.result = RT_FLOAT32;
  EXPECT_TRUE(aligned_parts(wide).empty());
  wide.transpose_left = false;
  wide.left = matrix(12, 8, false);
  EXPECT_EQ(aligned_parts(wide).size(), 2u);
}

TEST(AlignedParts, AreNoneWhereColumnsBeginAnywhereOrTheProductHasMore) {
  Gemm unaligned = product({17, 8, 8}, true, false), fused = unaligned, sums = unaligned;
  unaligned.d.ld = 17;
  EXPECT_TRUE(aligned_parts(unaligned).empty());
  fused.fused = 1;
  EXPECT_TRUE(aligned_parts(fused).empty());
  sums.row_sums = 1;
  EXPECT_TRUE(aligned_parts(sums).empty());
}

TEST(AlignedParts, OfSumsInFloat16WouldOverflowEarlier) {
  Gemm gemm = product({16, 8, 11}, true, false);
  EXPECT_EQ(aligned_parts(gemm).size(), 2u);
  gemm.dtype = gemm.result = RT_FLOAT16;
  EXPECT_TRUE(aligned_parts(gemm).empty());
}

int64_t reach_of(const ColumnMajor& x, int32_t batch) {
  return (batch - 1) * x.batch_stride + (x.columns - 1) * x.ld + x.rows;
}

class CountedParts : public testing::TestWithParam<Parameters> {};

// The columns of a matrix begin at multiples of 64 elements, so 40 of them reach over 2,500, and a
// batch of three over more than 10,000.
TEST_P(CountedParts, WriteWhatTheWholeProductWritesWithoutReachingFurther) {
  const auto [left, right, batch] = GetParam();
  for (const int64_t most : {1100, 2100, 5000}) {
    for (const Sizes& s : {Sizes{40, 7, 9}, Sizes{7, 50, 9}, Sizes{9, 7, 50}, Sizes{60, 61, 62}}) {
      SCOPED_TRACE(testing::Message() << s.m << " " << s.n << " " << s.k << ", at most " << most);
      const Gemm whole = product(s, left, right, batch);
      const std::vector<Gemm> parts = counted_parts(whole, most);
      EXPECT_EQ(result_of(parts), result_of({whole}));
      for (const Gemm& part : parts) {
        EXPECT_LE(reach_of(part.left, part.batch), most);
        EXPECT_LE(reach_of(part.right, part.batch), most);
        EXPECT_LE(reach_of(part.d, part.batch), most);
        EXPECT_EQ(part.left_begin % 8 + part.right_begin % 8 + part.d_begin % 8, 0);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Orders, CountedParts,
                         testing::Combine(testing::Bool(), testing::Bool(), testing::Values(1, 3)));

TEST(CountedParts, OfASharedMatrixDivideTheMatrixItself) {
  Gemm shared = product({7, 8, 50}, false, false, 3);
  shared.left.batch_stride = 0;
  EXPECT_EQ(result_of(counted_parts(shared, 2100)), result_of({shared}));
}

TEST(CountedParts, AreTheProductItselfUpToTheLimit) {
  const Gemm whole = product({16, 8, 24}, false, false);
  const int64_t reach = reach_of(whole.left, 1);
  EXPECT_EQ(counted_parts(whole, reach).size(), 1u);
  EXPECT_EQ(counted_parts(whole, reach - 1).size(), 2u);
}

TEST(CountedParts, AreNoneWhereNothingCanBeDivided) {
  Gemm fused = product({40, 50, 9}, false, false), half = product({9, 7, 50}, false, false),
       sums = fused;
  fused.fused = 1;
  EXPECT_TRUE(counted_parts(fused, 1100).empty());
  sums.row_sums = 1;
  EXPECT_TRUE(counted_parts(sums, 1100).empty());
  half.dtype = half.result = RT_FLOAT16;
  EXPECT_TRUE(counted_parts(half, 1100).empty()) << "a part of the sum may overflow";
  half.result = RT_FLOAT32;
  EXPECT_FALSE(counted_parts(half, 1100).empty());
  EXPECT_TRUE(counted_parts(product({40, 50, 9}, false, false), 64).empty()) << "one column is all";
}

// The logits of GPT-2, 96 x 1024 rows of 50,257 that are padded to 50,304, and both gradients.
TEST(CountedParts, OfTheLogitsAreFewAndAboutEqual) {
  constexpr int64_t kRows = 96 * 1024, kVocabulary = 50257, kPadded = 50304, kWidth = 768;
  Gemm logits{};
  logits.dtype = logits.result = RT_BFLOAT16;
  logits.m = kVocabulary, logits.n = kRows, logits.k = kWidth, logits.batch = 1;
  logits.left = {kWidth, kVocabulary, kWidth, 0}, logits.transpose_left = true;
  logits.right = {kWidth, kRows, kWidth, 0};
  logits.d = {kVocabulary, kRows, kPadded, 0};
  const std::vector<Gemm> rows = counted_parts(logits);
  ASSERT_EQ(rows.size(), 3u);
  for (const Gemm& part : rows) EXPECT_EQ(part.n, kRows / 3);
  EXPECT_EQ(rows[2].d_begin, 2 * (kRows / 3) * kPadded);
  Gemm weights = logits;  // dlogits^T x: the rows are the terms of its sums
  weights.m = kWidth, weights.n = kVocabulary, weights.k = kRows;
  weights.left = {kWidth, kRows, kWidth, 0}, weights.transpose_left = false;
  weights.right = {kVocabulary, kRows, kPadded, 0}, weights.transpose_right = true;
  weights.d = {kWidth, kVocabulary, kWidth, 0};
  const std::vector<Gemm> terms = counted_parts(weights);
  ASSERT_EQ(terms.size(), 3u);
  EXPECT_FALSE(terms[0].adds);
  EXPECT_TRUE(terms[1].adds && terms[2].adds);
  EXPECT_EQ(terms[2].right_begin, 2 * (kRows / 3) * kPadded);
}

}  // namespace
