// Compares products by packed weights with sums in double, for random convolutions and matrices,
// and with numbers that the matrix unit cannot take.
#include "backends/cpu/products/image_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace backends::cpu::products {
namespace {

using Floats = std::vector<float>;

struct Memory {
  explicit Memory(uint64_t bytes)
      : data(std::aligned_alloc(64, (bytes + 63) / 64 * 64), std::free) {
    std::fill_n(static_cast<float*>(data.get()), bytes / sizeof(float), std::nanf(""));
  }
  std::unique_ptr<void, decltype(&std::free)> data;
};

struct ImageCase {
  ImageSizes sizes;
  bool by_rows = false;
  Floats x, w;

  ImageCase(const ImageSizes& s, uint32_t seed, bool rows = false) : sizes(s), by_rows(rows) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    x.resize(static_cast<size_t>(s.n * s.h * s.w * s.c));
    w.resize(static_cast<size_t>(s.depth() * s.o));
    for (float& v : x) v = normal(generator);
    for (float& v : w) v = normal(generator);
  }
  double weight(int64_t depth, int64_t column) const {
    return w[static_cast<size_t>(by_rows ? depth * sizes.o + column
                                         : column * sizes.depth() + depth)];
  }
  // Element (row, column) of the result, and the largest that it could be.
  std::pair<double, double> expected(int64_t row, int64_t column) const {
    const ImageSizes& s = sizes;
    const int64_t n = row / (s.p * s.q), pixel = row % (s.p * s.q);
    double sum = 0, bound = 0;
    for (int64_t tap = 0; tap < s.taps(); ++tap) {
      const int64_t i = pixel / s.q * s.stride_h - s.pad_top + tap / s.kw * s.dilation_h,
                    j = pixel % s.q * s.stride_w - s.pad_left + tap % s.kw * s.dilation_w;
      if (i < 0 || i >= s.h || j < 0 || j >= s.w) continue;
      for (int64_t c = 0; c < s.c; ++c) {
        const double product = weight(tap * s.c + c, column) *
                               x[static_cast<size_t>(((n * s.h + i) * s.w + j) * s.c + c)];
        sum += product, bound += std::fabs(product);
      }
    }
    return {sum, bound};
  }
};

Floats run(const ImageCase& c, int threads, const Finish& finish = {}) {
  const SplitKernels& kernels = *split_image_kernels();
  const PackedWeights weights(kernels, c.sizes.taps(), c.sizes.c, c.sizes.o, c.by_rows);
  const ImageProduct product(kernels, kernels_for(Isa::kAvx512), c.sizes, weights, threads);
  const Memory packed(weights.bytes()), workspace(product.workspace_bytes());
  weights.pack(c.w.data(), packed.data.get(), threads);
  Floats result(static_cast<size_t>(c.sizes.rows() * c.sizes.o), std::nanf(""));
  product.run(c.x.data(), packed.data.get(), result.data(), workspace.data.get(), finish);
  return result;
}

void expect_right(const ImageCase& c, const Floats& result) {
  for (int64_t i = 0; i < c.sizes.rows(); ++i) {
    for (int64_t j = 0; j < c.sizes.o; ++j) {
      const auto [value, bound] = c.expected(i, j);
      const float found = result[static_cast<size_t>(i * c.sizes.o + j)];
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(found)) << i << "," << j;
      } else {
        ASSERT_NEAR(found, value, 1e-6 * bound + 1e-44) << i << "," << j;
      }
    }
  }
}

// A convolution whose image is about as large as its result needs.
ImageSizes random_sizes(std::mt19937& generator, bool whole_tiles) {
  const auto draw = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(generator);
  };
  ImageSizes s;
  s.n = draw(1, 5), s.c = draw(1, 80), s.o = draw(1, 100), s.kh = draw(1, 3), s.kw = draw(1, 3);
  s.stride_h = draw(1, 2), s.stride_w = draw(1, 2);
  s.dilation_h = draw(1, 2), s.dilation_w = draw(1, 2);
  s.pad_top = draw(0, 2), s.pad_left = draw(0, 2);
  s.p = draw(1, 9), s.q = whole_tiles ? 16 * draw(1, 2) : draw(1, 20);
  s.h = std::max(int64_t{1},
                 (s.p - 1) * s.stride_h + (s.kh - 1) * s.dilation_h + 1 - s.pad_top - draw(0, 2));
  s.w = std::max(int64_t{1},
                 (s.q - 1) * s.stride_w + (s.kw - 1) * s.dilation_w + 1 - s.pad_left - draw(-2, 2));
  return s;
}

ImageSizes matrix(int64_t rows, int64_t depth, int64_t columns) {
  ImageSizes s;
  s.n = rows, s.c = depth, s.o = columns;
  return s;
}

class ImageProducts : public testing::Test {
 protected:
  void SetUp() override {
    if (split_image_kernels() == nullptr) GTEST_SKIP() << "no matrix unit for bfloat16";
  }
};

TEST_F(ImageProducts, RandomConvolutionsAreRight) {
  std::mt19937 generator(3);
  for (uint32_t i = 0; i < 40; ++i) {
    SCOPED_TRACE(i);
    const ImageCase c(random_sizes(generator, i % 3 == 0), i);
    expect_right(c, run(c, 1 + static_cast<int>(i % 4)));
  }
}

TEST_F(ImageProducts, MatricesAreRight) {
  for (const bool by_rows : {false, true}) {
    for (const int64_t rows : {1, 16, 17, 33, 260}) {
      const ImageCase c(matrix(rows, rows == 1 ? 1100 : 70, 45), 5, by_rows);
      expect_right(c, run(c, 2));
    }
  }
}

TEST_F(ImageProducts, NumbersThatCannotBeSplitAreExact) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float bad : {1e-42F, 1e35F, kInfinity, std::nanf("")}) {
    for (const bool in_weights : {false, true}) {
      std::mt19937 generator(9);
      ImageCase c(random_sizes(generator, true), 7);
      (in_weights ? c.w : c.x)[11] = bad;
      const Floats result = run(c, 2);
      if (std::isfinite(bad)) expect_right(c, result);
      EXPECT_EQ(std::all_of(result.begin(), result.end(), [](float v) { return std::isfinite(v); }),
                std::isfinite(bad));
    }
  }
}

TEST_F(ImageProducts, EveryNumberOfThreadsGivesTheSameBits) {
  ImageSizes s = matrix(1, 64, 200);
  s.n = 3, s.h = s.p = 8, s.w = s.q = 8, s.kh = s.kw = 3, s.pad_top = s.pad_left = 1;
  for (const ImageSizes& sizes : {s, matrix(130, 700, 200)}) {
    const ImageCase c(sizes, 4);
    const Floats one = run(c, 1);
    for (const int threads : {2, 3, 4, 7}) EXPECT_EQ(one, run(c, threads)) << threads << " threads";
  }
}

TEST_F(ImageProducts, EveryElementIsFinishedOnceWhenItIsComplete) {
  const ImageCase c(matrix(300, 600, 500), 4);
  std::vector<int> finished(300 * 500);
  run(c, 1, [&](int64_t row, int64_t rows, int64_t column, int64_t columns) {
    for (int64_t i = row; i < row + rows; ++i) {
      for (int64_t j = column; j < column + columns; ++j)
        ++finished[static_cast<size_t>(i * 500 + j)];
    }
  });
  EXPECT_EQ(finished, std::vector<int>(300 * 500, 1));
}

}  // namespace
}  // namespace backends::cpu::products
