// Compares products of bfloat16 matrices by the matrix unit with sums in double, for sizes that
// fill tiles and that do not, and for several numbers of threads.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backends/cpu/bfloat16/product.h"
#include "rt/sdk/float16.h"

namespace backends::cpu::bfloat16 {
namespace {

using Bits = std::vector<uint16_t>;

struct Case {
  Sizes sizes;
  bool transpose_a, transpose_b;
  Bits a, b;

  Case(const Sizes& s, bool ta, bool tb, uint32_t seed)
      : sizes(s), transpose_a(ta), transpose_b(tb) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    a.resize(static_cast<size_t>(s.rows * s.depth));
    b.resize(static_cast<size_t>(s.depth * s.columns));
    for (uint16_t& x : a) x = rt::sdk::to_bfloat16(normal(generator));
    for (uint16_t& x : b) x = rt::sdk::to_bfloat16(normal(generator));
  }
  Matrix left() const {
    return transpose_a ? Matrix{a.data(), 1, sizes.rows} : Matrix{a.data(), sizes.depth, 1};
  }
  Matrix right() const {
    return transpose_b ? Matrix{b.data(), 1, sizes.depth} : Matrix{b.data(), sizes.columns, 1};
  }
  static double at(const Matrix& m, int64_t i, int64_t j) {
    return rt::sdk::from_bfloat16(*m.at(i, j).data);
  }
  std::string text() const {
    return std::to_string(sizes.rows) + "x" + std::to_string(sizes.columns) + "x" +
           std::to_string(sizes.depth) + (transpose_a ? " ta" : "") + (transpose_b ? " tb" : "");
  }
};

struct Result {
  std::vector<float> c, sums;
  bool operator==(const Result&) const = default;
};

// Runs a product in memory of exactly the size that it asks for. Elements that are not finished
// exactly once are NaN in the result.
Result run(const Case& p, int threads) {
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  const Product product(*matrix_unit(), p.sizes, threads, true);
  const std::unique_ptr<void, decltype(&std::free)> workspace(
      std::aligned_alloc(64, (product.workspace_bytes() + 63) / 64 * 64), &std::free);
  Result result;
  result.c.resize(static_cast<size_t>(p.sizes.rows * p.sizes.columns), kNone);
  result.sums.resize(static_cast<size_t>(p.sizes.rows), kNone);
  product.run(p.left(), p.right(), result.sums.data(), workspace.get(), [&](const Block& block) {
    for (int64_t i = 0; i < block.rows; ++i) {
      for (int64_t j = 0; j < block.columns; ++j) {
        float& c =
            result.c[static_cast<size_t>((block.row + i) * p.sizes.columns + block.column + j)];
        c = std::isnan(c) ? block.values[i * block.stride + j] : kNone;
      }
    }
  });
  return result;
}

void expect_right(const Case& p, const Result& result) {
  constexpr double kTolerance = 1e-5;  // relative to the sum of the absolute values
  for (int64_t i = 0; i < p.sizes.rows; ++i) {
    double sum = 0, bound = 0;
    for (int64_t k = 0; k < p.sizes.depth; ++k) {
      sum += Case::at(p.left(), i, k);
      bound += std::fabs(Case::at(p.left(), i, k));
    }
    ASSERT_NEAR(result.sums[static_cast<size_t>(i)], sum, kTolerance * bound)
        << p.text() << ", row " << i;
    for (int64_t j = 0; j < p.sizes.columns; ++j) {
      sum = bound = 0;
      for (int64_t k = 0; k < p.sizes.depth; ++k) {
        const double x = Case::at(p.left(), i, k) * Case::at(p.right(), k, j);
        sum += x, bound += std::fabs(x);
      }
      ASSERT_NEAR(result.c[static_cast<size_t>(i * p.sizes.columns + j)], sum, kTolerance * bound)
          << p.text() << " at " << i << ", " << j;
    }
  }
}

TEST(CpuBfloat16Product, IsThatOfSumsInDoubleForAnyNumberOfThreads) {
  if (matrix_unit() == nullptr) GTEST_SKIP() << "this processor has no matrix unit";
  const Sizes sizes[] = {{1, 1, 1},    {32, 32, 32},  {33, 31, 65},   {7, 300, 513},
                         {70, 5, 600}, {96, 290, 40}, {600, 33, 100}, {64, 64, 1100}};
  uint32_t seed = 0;
  for (const Sizes& s : sizes) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        const Case p(s, ta, tb, ++seed);
        const Result one = run(p, 1);
        expect_right(p, one);
        for (const int threads : {2, 3})
          EXPECT_EQ(run(p, threads), one) << p.text() << ", " << threads;
      }
    }
  }
}

TEST(CpuBfloat16Product, AnInfinityReachesOnlyWhatDependsOnIt) {
  if (matrix_unit() == nullptr) GTEST_SKIP() << "this processor has no matrix unit";
  Case p({40, 50, 70}, false, false, 1);
  p.a[3 * 70 + 69] = rt::sdk::to_bfloat16(std::numeric_limits<float>::infinity());
  const Result result = run(p, 2);
  for (int64_t i = 0; i < 40; ++i) {
    for (int64_t j = 0; j < 50; ++j) {
      EXPECT_EQ(std::isfinite(result.c[static_cast<size_t>(i * 50 + j)]), i != 3) << i << ", " << j;
    }
  }
}

}  // namespace
}  // namespace backends::cpu::bfloat16
