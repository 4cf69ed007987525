// Compares fused attention with sums in double, for every instruction set that this processor has
// and for several numbers of threads.
#include "backends/cpu/attention/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <vector>

namespace backends::cpu::attention {
namespace {

using Floats = std::vector<float>;

Floats ramp(int64_t count, int64_t seed) {
  Floats values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    values[static_cast<size_t>(i)] = static_cast<float>((i * 37 + i / 7 * seed) % 101) / 50.0f - 1;
  }
  return values;
}

// An aligned workspace of exactly `bytes` bytes, filled with NaN.
class Workspace {
 public:
  explicit Workspace(uint64_t bytes)
      : data_(static_cast<float*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)), std::free) {
    std::fill_n(data_.get(), bytes / sizeof(float), std::nanf(""));
  }
  float* get() const { return data_.get(); }

 private:
  std::unique_ptr<float, decltype(&std::free)> data_;
};

struct Results {
  Floats y, dqkv;
};

struct Problem {
  Shape shape;
  Floats qkv, dy;
  explicit Problem(const Shape& s) : shape(s), qkv(ramp(3 * size(), 5)), dy(ramp(size(), 3)) {}
  int64_t size() const { return shape.samples * shape.queries * features(); }
  int64_t features() const { return shape.heads * shape.width; }
  template <typename T>
  Operand<T> part(T* of, int64_t i) const {
    return {of + i * features(), 3 * features()};
  }

  Results run(const KernelTable& kernels, int threads) const {
    const Attention attention(shape, threads, kernels);
    Results r{Floats(dy.size()), Floats(qkv.size())};
    Floats saved(attention.saved_bytes() / sizeof(float));
    const Workspace forward(attention.forward_workspace_bytes());
    const Workspace backward(attention.backward_workspace_bytes());
    const float* const in = qkv.data();
    float* const out = r.dqkv.data();
    const Inputs inputs{part(in, 0), part(in, 1), part(in, 2)};
    attention.forward(inputs, {r.y.data(), features()}, saved.data(), forward.get());
    attention.backward(inputs,
                       {{dy.data(), features()},
                        {r.y.data(), features()},
                        part(out, 0),
                        part(out, 1),
                        part(out, 2)},
                       saved.data(), backward.get());
    return r;
  }
};

// The offsets of one row of one head in y and in qkv.
struct Row {
  int64_t y, qkv;
};

// Adds the contributions of query `i` to y and dqkv.
void expected_row(const Problem& p, const std::vector<Row>& rows, int64_t i, std::vector<double>& y,
                  std::vector<double>& dqkv) {
  const int64_t width = p.shape.width, features = p.shape.heads * width;
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  const auto at = [&](int64_t row, int64_t part, int64_t d) {
    return static_cast<size_t>(rows[static_cast<size_t>(row)].qkv + part * features + d);
  };
  const auto out = [&](int64_t d) {
    return static_cast<size_t>(rows[static_cast<size_t>(i)].y + d);
  };
  const int64_t keys = p.shape.causal ? i + 1 : p.shape.queries;
  std::vector<double> weight(static_cast<size_t>(keys));
  double sum = 0, both = 0;
  for (int64_t j = 0; j < keys; ++j) {
    double score = 0;
    for (int64_t d = 0; d < width; ++d) score += p.qkv[at(i, 0, d)] * p.qkv[at(j, 1, d)];
    sum += weight[static_cast<size_t>(j)] = std::exp(scale * score);
  }
  for (int64_t d = 0; d < width; ++d) {
    for (int64_t j = 0; j < keys; ++j) {
      y[out(d)] += weight[static_cast<size_t>(j)] / sum * p.qkv[at(j, 2, d)];
    }
    both += y[out(d)] * p.dy[out(d)];
  }
  for (int64_t j = 0; j < keys; ++j) {
    const double probability = weight[static_cast<size_t>(j)] / sum;
    double gradient = -both;
    for (int64_t d = 0; d < width; ++d) gradient += p.dy[out(d)] * p.qkv[at(j, 2, d)];
    gradient *= scale * probability;
    for (int64_t d = 0; d < width; ++d) {
      dqkv[at(i, 0, d)] += gradient * p.qkv[at(j, 1, d)];
      dqkv[at(j, 1, d)] += gradient * p.qkv[at(i, 0, d)];
      dqkv[at(j, 2, d)] += probability * p.dy[out(d)];
    }
  }
}

void expect_near(const Floats& actual, const std::vector<double>& expected, const char* what) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    difference += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  EXPECT_LE(std::sqrt(difference / norm), 2e-6) << what;  // false for NaN
}

const std::vector<Shape>& shapes() {
  using rt::sdk::packed_attention;
  static const std::vector<Shape> list = {
      packed_attention(2, 1, 2, 3, true),    packed_attention(1, 40, 1, 64, false),
      packed_attention(2, 70, 3, 24, true),  packed_attention(1, 70, 2, 24, false),
      packed_attention(1, 130, 1, 17, true), packed_attention(1, 129, 1, 80, false)};
  return list;
}

TEST(Attention, EveryInstructionSetAgreesWithSumsInDouble) {
  for (const Shape& s : shapes()) {
    const Problem p(s);
    std::vector<double> y(p.dy.size()), dqkv(p.qkv.size());
    for (int64_t n = 0; n < s.samples * s.heads; ++n) {
      std::vector<Row> rows;
      for (int64_t i = 0; i < s.queries; ++i) {
        const int64_t row = n / s.heads * s.queries + i, column = n % s.heads * s.width;
        rows.push_back({row * s.heads * s.width + column, row * 3 * s.heads * s.width + column});
      }
      for (int64_t i = 0; i < s.queries; ++i) expected_row(p, rows, i, y, dqkv);
    }
    for (const Isa isa : usable_isas()) {
      SCOPED_TRACE(kernel_suffix(isa) + (" length " + std::to_string(s.queries)));
      const Results r = p.run(kernels_for(isa), 1);
      expect_near(r.y, y, "y");
      expect_near(r.dqkv, dqkv, "dqkv");
    }
  }
}

TEST(Attention, TheBitsDoNotDependOnTheNumberOfThreads) {
  const Problem p(rt::sdk::packed_attention(3, 130, 3, 32, true));
  const Results one = p.run(kernels_for(widest_isa()), 1);
  for (const int threads : {2, 5}) {
    const Results more = p.run(kernels_for(widest_isa()), threads);
    EXPECT_EQ(more.y, one.y) << threads;
    EXPECT_EQ(more.dqkv, one.dqkv) << threads;
  }
}

// Scores far above the range of exp.
TEST(Attention, LargeScoresStayFinite) {
  Problem p(rt::sdk::packed_attention(1, 70, 1, 16, true));
  for (float& x : p.qkv) x *= 50;
  const Results r = p.run(kernels_for(widest_isa()), 1);
  for (const float x : r.y) ASSERT_TRUE(std::isfinite(x));
  for (const float x : r.dqkv) ASSERT_TRUE(std::isfinite(x));
}

// In the first block all keys are -infinity and all queries are positive.
TEST(Attention, KeysOfMinusInfinityAreNothingBesideLaterOnes) {
  constexpr int64_t kInfinite = 64, kLength = 70;
  for (const Isa isa : usable_isas()) {
    SCOPED_TRACE(kernel_suffix(isa));
    Problem p(rt::sdk::packed_attention(1, kLength, 1, 1, false));
    for (size_t i = 0; i < p.qkv.size(); i += 3) {
      p.qkv[i] = 1;
      p.qkv[i + 1] = i / 3 < kInfinite ? -std::numeric_limits<float>::infinity() : 0.0f;
    }
    const Results r = p.run(kernels_for(isa), 1);
    double mean = 0;
    for (int64_t j = kInfinite; j < kLength; ++j) mean += p.qkv[static_cast<size_t>(3 * j + 2)];
    mean /= kLength - kInfinite;
    for (const float y : r.y) ASSERT_NEAR(y, mean, 1e-6);
  }
}

// A row whose visible scores are all -infinity becomes NaN; the NaN reaches only the gradients of
// the rows that it sees.
TEST(Attention, ARowOfMinusInfinityIsNotANumber) {
  for (const Isa isa : usable_isas()) {
    SCOPED_TRACE(kernel_suffix(isa));
    Problem p(rt::sdk::packed_attention(1, 20, 1, 1, true));
    for (size_t i = 0; i < p.qkv.size(); i += 3) p.qkv[i] = 1;
    p.qkv[1] = -std::numeric_limits<float>::infinity();
    const Results r = p.run(kernels_for(isa), 1);
    EXPECT_TRUE(std::isnan(r.y[0]));
    EXPECT_TRUE(std::isnan(r.dqkv[1]) && std::isnan(r.dqkv[2]));
    for (size_t row = 1; row < r.y.size(); ++row) {
      ASSERT_TRUE(std::isfinite(r.y[row])) << row;
      ASSERT_TRUE(std::isfinite(r.dqkv[3 * row + 1])) << row;
      ASSERT_TRUE(std::isfinite(r.dqkv[3 * row + 2])) << row;
    }
  }
}

}  // namespace
}  // namespace backends::cpu::attention
