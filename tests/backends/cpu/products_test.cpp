// Compares our matrix products with sums in double, for every instruction set that this processor
// has, for random sizes that fill tiles and that do not, and for several numbers of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/products/product.h"

namespace backends::cpu::products {
namespace {

using Floats = std::vector<float>;

// Every table of this processor: those of the instruction sets, and that of the matrix unit.
std::vector<const KernelTable*> all_kernels() {
  std::vector<const KernelTable*> tables;
  for (const Isa isa : usable_isas()) tables.push_back(&kernels_for(isa));
  if (split_kernels() != nullptr) tables.push_back(split_kernels());
  return tables;
}

struct ProductCase {
  Sizes sizes;
  bool transpose_a, transpose_b;
  Floats a, b;

  ProductCase(const Sizes& s, bool ta, bool tb, uint32_t seed)
      : sizes(s), transpose_a(ta), transpose_b(tb) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    a.resize(static_cast<size_t>(s.rows * s.depth));
    b.resize(static_cast<size_t>(s.depth * s.columns));
    for (float& x : a) x = normal(generator);
    for (float& x : b) x = normal(generator);
  }
  Matrix left() const {
    return transpose_a ? Matrix{a.data(), 1, sizes.rows} : Matrix{a.data(), sizes.depth, 1};
  }
  Matrix right() const {
    return transpose_b ? Matrix{b.data(), 1, sizes.depth} : Matrix{b.data(), sizes.columns, 1};
  }
  // Element (i, j), and the largest that it could be.
  std::pair<double, double> expected(int64_t i, int64_t j) const {
    double sum = 0, bound = 0;
    for (int64_t k = 0; k < sizes.depth; ++k) {
      const Matrix x = left().at(i, k), y = right().at(k, j);
      const double product = static_cast<double>(*x.data) * static_cast<double>(*y.data);
      sum += product, bound += std::fabs(product);
    }
    return {sum, bound};
  }
  std::string text() const {
    return std::to_string(sizes.rows) + "x" + std::to_string(sizes.columns) + "x" +
           std::to_string(sizes.depth) + (transpose_a ? " ta" : "") + (transpose_b ? " tb" : "");
  }
};

// Memory of exactly `bytes`, aligned, filled with NaN: sanitizers find whatever is written behind
// it.
struct Workspace {
  explicit Workspace(uint64_t bytes)
      : data(std::aligned_alloc(64, (bytes + 63) / 64 * 64), std::free) {
    std::fill_n(static_cast<float*>(data.get()), bytes / sizeof(float), std::nanf(""));
  }
  std::unique_ptr<void, decltype(&std::free)> data;
};

Floats run(const ProductCase& c, const KernelTable& kernels, int threads,
           const Finish& finish = {}) {
  const Product product(kernels, kernels_for(widest_isa()), c.sizes, threads);
  const Workspace workspace(product.workspace_bytes());
  Floats result(static_cast<size_t>(c.sizes.rows * c.sizes.columns), std::nanf(""));
  product.run(c.left(), c.right(), result.data(), workspace.data.get(), finish);
  return result;
}

void expect_right(const ProductCase& c, const Floats& result) {
  for (int64_t i = 0; i < c.sizes.rows; ++i) {
    for (int64_t j = 0; j < c.sizes.columns; ++j) {
      const auto [value, bound] = c.expected(i, j);
      const float found = result[static_cast<size_t>(i * c.sizes.columns + j)];
      ASSERT_NEAR(found, value, 1e-6 * bound + 1e-44)
          << "(" << i << "," << j << ") of " << c.text();
    }
  }
}

TEST(Products, RandomSizesAreRight) {
  std::mt19937 generator(7);
  const auto draw = [&](int64_t most) {
    return std::uniform_int_distribution<int64_t>(1, most)(generator);
  };
  for (uint32_t i = 0; i < 60; ++i) {
    const ProductCase c({draw(70), draw(150), draw(i % 6 == 0 ? 1200 : 90)}, i % 2 != 0, i % 4 >= 2,
                        i);
    for (const KernelTable* kernels : all_kernels()) {
      SCOPED_TRACE(kernels->name);
      expect_right(c, run(c, *kernels, 1 + static_cast<int>(i % 4)));
    }
  }
}

TEST(Products, SizesAroundTheBlocksAreRight) {
  for (const KernelTable* kernels : all_kernels()) {
    SCOPED_TRACE(kernels->name);
    for (const int64_t extra : {int64_t{-1}, int64_t{0}, int64_t{1}}) {
      const ProductCase tile(
          {kernels->rows + extra, kernels->columns + extra, kernels->depth_in_cache + extra}, false,
          true, 1);
      expect_right(tile, run(tile, *kernels, 1));
      const ProductCase block({kernels->rows_in_cache + extra, 3, 5}, true, false, 2);
      expect_right(block, run(block, *kernels, 2));
    }
  }
}

TEST(Products, EveryNumberOfThreadsGivesTheSameBits) {
  const ProductCase c({130, 200, 700}, false, false, 3);
  for (const KernelTable* kernels : all_kernels()) {
    SCOPED_TRACE(kernels->name);
    const Floats one = run(c, *kernels, 1);
    for (const int threads : {2, 3, 4, 7})
      EXPECT_EQ(one, run(c, *kernels, threads)) << threads << " threads";
  }
}

TEST(Products, EveryElementIsFinishedOnceWhenItIsComplete) {
  const ProductCase c({75, 300, 600}, false, false, 4);
  for (const KernelTable* kernels : all_kernels()) {
    SCOPED_TRACE(kernels->name);
    std::vector<int> finished(75 * 300);
    std::mutex mutex;
    run(c, *kernels, 3, [&](int64_t row, int64_t rows, int64_t column, int64_t columns) {
      const std::lock_guard lock(mutex);
      for (int64_t i = row; i < row + rows; ++i) {
        for (int64_t j = column; j < column + columns; ++j)
          ++finished[static_cast<size_t>(i * 300 + j)];
      }
    });
    EXPECT_EQ(finished, std::vector<int>(75 * 300, 1));
  }
}

// The matrix unit multiplies parts of numbers, so it must not be asked for numbers that have no
// parts.
TEST(Products, InfiniteAndLargestNumbersAreAsInFloat32) {
  constexpr float kInfinite = std::numeric_limits<float>::infinity(),
                  kLargest = std::numeric_limits<float>::max();
  for (const KernelTable* kernels : all_kernels()) {
    SCOPED_TRACE(kernels->name);
    for (const float special : {kInfinite, -kInfinite, kLargest, std::nanf("")}) {
      ProductCase c({40, 50, 60}, false, false, 5);
      std::fill(c.b.begin(), c.b.end(), 0.5f);
      c.a[7 * 60 + 3] = special;
      const Floats result = run(c, *kernels, 2);
      for (int64_t j = 0; j < 50; ++j) {
        const float found = result[static_cast<size_t>(7 * 50 + j)];
        if (std::isnan(special)) {
          EXPECT_TRUE(std::isnan(found)) << found;
        } else {
          EXPECT_FLOAT_EQ(found, special * 0.5f);
        }
      }
      EXPECT_TRUE(std::isfinite(result[0]));
    }
  }
}

// Small numbers keep their digits, whatever they are multiplied by, and beside large ones.
TEST(Products, SmallNumbersKeepTheirDigits) {
  for (const KernelTable* kernels : all_kernels()) {
    SCOPED_TRACE(kernels->name);
    for (const auto& [of_a, of_b] :
         {std::pair{-100, 100}, {-130, 120}, {-140, 100}, {-60, -60}, {120, -149}}) {
      ProductCase c({33, 40, 70}, false, true, 8);
      for (float& x : c.a) x = std::ldexp(x, of_a);
      for (float& x : c.b) x = std::ldexp(x, of_b);
      expect_right(c, run(c, *kernels, 1));
      if (of_b > 0) continue;                                  // the products would be infinite
      for (size_t i = 0; i < c.a.size(); i += 70) c.a[i] = 0;  // the first of each row
      c.a[140] = 1e30f, c.b[0] = 0;
      c.b[1] = std::ldexp(1.0f, of_b);
      expect_right(c, run(c, *kernels, 1));
    }
  }
}

TEST(Products, TheMatrixUnitIsAsExactAsFloat32) {
  if (split_kernels() == nullptr)
    GTEST_SKIP() << "this processor has no matrix unit for bfloat16 (AMX)";
  const ProductCase c({64, 64, 1024}, false, false, 6);
  const auto error = [&](const Floats& result) {
    double sum = 0;
    for (int64_t i = 0; i < 64; ++i) {
      for (int64_t j = 0; j < 64; ++j) {
        const double e = result[static_cast<size_t>(i * 64 + j)] - c.expected(i, j).first;
        sum += e * e;
      }
    }
    return std::sqrt(sum);
  };
  EXPECT_LE(error(run(c, *split_kernels(), 1)), error(run(c, kernels_for(widest_isa()), 1)));
}

}  // namespace
}  // namespace backends::cpu::products
