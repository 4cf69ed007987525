// Known answers, random numbers, gradients and refusals of dot_product_attention.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "rt/sdk/philox.h"
#include "tests/backends/reference/harness.h"

namespace backends::reference::testing {
namespace {

using plugins::host::Operation;
using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

constexpr int64_t kAttentionSeed = 0x0123456789abcdef;

// What an operation is made of: q [n,t,heads d], k [n,s,keys d], v [n,s,keys e].
struct Form {
  int64_t n = 1, t = 1, s = 1, heads = 1, keys = 1, d = 1, e = 1;
  Attributes attributes = {};
  int64_t documents = 0;  // 0: none, and no step and base
  bool counters = false;

  std::vector<Dims> operands() const {
    return {{n, t, heads * d}, {n, s, keys * d}, {n, s, keys * e}};
  }
  Dims y() const { return {n, t, heads * e}; }
  Operation finish(Operation op, size_t first) const {
    const size_t more = op.inputs.size() - first;
    if (more > 0) op.inputs[first].dtype = op.inputs[first + 1].dtype = RT_INT64;
    if (more > 2) op.inputs[first + 2].dtype = RT_INT32;
    return op;
  }
  std::vector<Dims> with_optional(std::vector<Dims> dims) const {
    if (counters || documents > 0) dims.insert(dims.end(), 2, Dims{1});
    if (documents > 0) dims.push_back({n, documents});
    return dims;
  }
  Attributes all_attributes() const {
    Attributes all = attributes;
    all.push_back({RT_ATTR_HEADS, heads});
    all.push_back({RT_ATTR_KEY_HEADS, keys});
    return all;
  }
  Operation forward() const {
    return finish(
        operation(RT_OP_DOT_PRODUCT_ATTENTION, with_optional(operands()), {y()}, all_attributes()),
        3);
  }
  Operation backward() const {
    std::vector<Dims> inputs = operands();
    inputs.insert(inputs.begin(), y());
    inputs.push_back(y());
    return finish(operation(RT_OP_DOT_PRODUCT_ATTENTION_BACKWARD, with_optional(inputs), operands(),
                            all_attributes()),
                  5);
  }
};

// All scores are 0, because all queries are, so that each query takes the mean of what it sees.
// `optional` are step, base and documents.
Array means(const Form& f, const Array& v, const std::vector<Array>& optional = {}) {
  const Array q(static_cast<size_t>(count(f.operands()[0])), 0.0);
  const Array k(static_cast<size_t>(count(f.operands()[1])), 5.0);
  std::vector<Array> inputs = {q, k, v};
  inputs.insert(inputs.end(), optional.begin(), optional.end());
  return run(f.forward(), inputs, nullptr)[0];
}

const Attributes kCausal = {{RT_ATTR_CAUSAL, int64_t{1}}};

TEST(DotProductAttention, HeadsShareKeysInOrder) {
  Form f{1, 1, 2, 4, 2, 3, 1};
  EXPECT_THAT(means(f, {1, 10, 3, 20}), Pointwise(DoubleNear(1e-14), {2., 2., 15., 15.}));
}

TEST(DotProductAttention, TheKeysEndWhereTheQueriesEnd) {
  Form f{1, 2, 4, 1, 1, 1, 1, kCausal};
  EXPECT_THAT(means(f, {3, 6, 9, 14}), Pointwise(DoubleNear(1e-14), {6., 8.}));
  // The first two of four queries stand before all keys.
  Form more{1, 4, 2, 1, 1, 1, 1, kCausal};
  EXPECT_THAT(means(more, {3, 7}), Pointwise(DoubleNear(1e-14), {0., 0., 3., 5.}));
}

TEST(DotProductAttention, AWindowEndsWithTheOwnKey) {
  Form f{1, 4, 4, 1, 1, 1, 1, {{RT_ATTR_CAUSAL, int64_t{1}}, {RT_ATTR_WINDOW, int64_t{2}}}};
  EXPECT_THAT(means(f, {1, 3, 5, 11}), Pointwise(DoubleNear(1e-14), {1., 2., 4., 8.}));
}

TEST(DotProductAttention, DocumentsAreApartAndPaddingSeesNothing) {
  Form f{2, 3, 3, 1, 1, 1, 1};
  f.documents = 3;
  EXPECT_THAT(means(f, {1, 5, 3, 8, 9, 10}, {{0}, {0}, {4, 7, 4, -1, 0, -1}}),
              Pointwise(DoubleNear(1e-14), {2., 5., 2., 0., 9., 0.}));
  f.documents = 6;  // those of the keys stand apart
  EXPECT_THAT(means(f, {1, 5, 3, 8, 9, 10}, {{0}, {0}, {0, 1, 2, 0, 0, 2, 0, 0, -1, 1, 1, 2}}),
              Pointwise(DoubleNear(1e-14), {3., 0., 3., 0., 0., 0.}));
}

// Two keys; the difference of their scores is log(3).
TEST(DotProductAttention, ScalesScores) {
  const double three = std::log(3.0);
  Form f{1, 1, 2, 1, 1, 4, 2};
  const auto y = [&] {
    return run(f.forward(), {{1, 0, 0, 0}, {2 * three, 1, 1, 1, 0, 2, 2, 2}, {8, 0, 0, 4}})[0];
  };
  EXPECT_THAT(y(), Pointwise(DoubleNear(1e-14), {6., 1.}));  // 1 / sqrt(4)
  f.attributes = {{RT_ATTR_SCALE, 1.0}};
  EXPECT_THAT(y(), Pointwise(DoubleNear(1e-14), {7.2, 0.4}));
}

Attributes dropping(double probability, int64_t first_head = 0) {
  return {{RT_ATTR_PROBABILITY, probability},
          {RT_ATTR_SEED, kAttentionSeed},
          {RT_ATTR_STREAM, int64_t{3}},
          {RT_ATTR_FIRST_HEAD, first_head}};
}

// What the weights 1/2 become for two keys whose values are (1, 0) and (0, 1).
Array dropped(Form f, double step, double base) {
  f.counters = true;
  Array v;
  for (int64_t i = 0; i < f.n; ++i) {
    for (int64_t j = 0; j < f.s; ++j) {
      for (int64_t h = 0; h < f.keys; ++h) {
        for (int64_t e = 0; e < f.e; ++e) v.push_back(e == j ? 1 : 0);
      }
    }
  }
  return means(f, v, {{step}, {base}});
}

TEST(DotProductAttention, DropoutFollowsTheDocumentedCounter) {
  constexpr double kStep = 5000000007.0, kBase = 100;  // the step needs more than 32 bits
  const Form f{2, 3, 6, 2, 1, 2, 6, dropping(0.25, 5)};
  const Array y = dropped(f, kStep, kBase);
  using rt::sdk::philox4x32_10;
  const auto key =
      philox4x32_10({705032711, 1, 3, 0xffffffff}, {0x89abcdef, 0x01234567});  // 2^32 + 705032711
  for (uint32_t n = 0; n < 2; ++n) {
    for (uint32_t i = 0; i < 3; ++i) {
      for (uint32_t h = 0; h < 2; ++h) {
        for (uint32_t j = 0; j < 6; ++j) {
          const auto words = philox4x32_10({j / 4, i, 5 + h, 100 + n}, {key[0], key[1]});
          const double u = (words[j % 4] >> 8) / 16777216.0;
          EXPECT_NEAR(y[((n * 3 + i) * 2 + h) * 6 + j], u >= 0.25 ? 1 / 0.75 / 6 : 0.0, 1e-15);
        }
      }
    }
  }
}

TEST(DotProductAttention, TheMaskDoesNotDependOnTheSplitOverRanks) {
  const Form whole{4, 3, 9, 4, 2, 1, 9, dropping(0.5)};
  const Array all = dropped(whole, 4, 1000);
  Form samples = whole;
  samples.n = 1;
  const Array last = dropped(samples, 4, 1003);
  EXPECT_EQ(Array(all.end() - static_cast<int64_t>(last.size()), all.end()), last);
  Form heads{4, 3, 9, 2, 1, 1, 9, dropping(0.5, 2)};
  const Array upper = dropped(heads, 4, 1000);
  for (size_t row = 0; row < 12; ++row) {
    for (size_t i = 0; i < 18; ++i) ASSERT_EQ(upper[row * 18 + i], all[row * 36 + 18 + i]);
  }
}

TEST(DotProductAttention, DropoutKeepsTheExpectedShare) {
  const Array y = dropped({2, 50, 100, 2, 2, 1, 100, dropping(0.3)}, 1, 0);
  double kept = 0;
  for (const double w : y) kept += w > 0 ? 1 : 0;
  EXPECT_NEAR(kept / static_cast<double>(y.size()), 0.7, 0.02);
}

void expect_gradients(const Form& f, const std::vector<Array>& optional, const std::string& what) {
  std::vector<Array> inputs;
  for (const Dims& dims : f.operands())
    inputs.push_back(random_array(dims, inputs.size() + 1, -1.5, 1.5));
  inputs.insert(inputs.end(), optional.begin(), optional.end());
  const Array dy = random_array(f.y(), 9);
  Saved saved;
  const Array y = run(f.forward(), inputs, &saved)[0];
  std::vector<Array> reads = {dy, inputs[0], inputs[1], inputs[2], y};
  reads.insert(reads.end(), optional.begin(), optional.end());
  const std::vector<Array> gradients = run(f.backward(), reads, &saved);
  for (size_t i = 0; i < 3; ++i) {
    const auto function = [&](const Array& x) {
      std::vector<Array> changed = inputs;
      changed[i] = x;
      Saved unused;
      return run(f.forward(), changed, &unused)[0];
    };
    expect_gradient(function, inputs[i], dy, gradients[i], what + " " + std::to_string(i));
  }
}

TEST(DotProductAttention, Gradients) {
  expect_gradients({2, 3, 5, 4, 2, 3, 2}, {}, "shared keys");
  expect_gradients({2, 5, 3, 2, 2, 2, 3, kCausal}, {}, "queries that see nothing");
  const Attributes window = {
      {RT_ATTR_CAUSAL, int64_t{1}}, {RT_ATTR_WINDOW, int64_t{3}}, {RT_ATTR_SCALE, 0.7}};
  expect_gradients({1, 7, 7, 3, 1, 2, 2, window}, {}, "window");
  Form f{2, 5, 5, 2, 1, 2, 3, dropping(0.4, 1)};
  f.counters = true;
  expect_gradients(f, {{3}, {17}}, "dropout");
  f.documents = 5;
  expect_gradients(f, {{3}, {17}, {0, 0, 1, 1, -1, 2, 2, 2, 2, 2}}, "documents");
  f.s = 4;
  f.documents = 9;
  f.attributes.push_back(kCausal[0]);
  expect_gradients(f, {{3}, {17}, {0, 0, 1, 1, -1, 0, 1, 1, -1, 2, 2, 3, 2, 2, 2, 3, 3, 2}},
                   "documents of both");
}

TEST(DotProductAttention, AQueryThatSeesNothingHasNoGradient) {
  Form f{1, 2, 2, 1, 1, 2, 2};
  f.documents = 2;
  const std::vector<Array> optional = {{0}, {0}, {-1, -1}};
  const Array x = {1, 2, 3, 4};
  Saved saved;
  const Array y = run(f.forward(), {x, x, x, optional[0], optional[1], optional[2]}, &saved)[0];
  EXPECT_THAT(y, Each(0.0));
  for (const Array& gradient :
       run(f.backward(), {x, x, x, x, y, optional[0], optional[1], optional[2]}, &saved))
    EXPECT_THAT(gradient, Each(0.0));
}

TEST(DotProductAttention, Refusals) {
  const auto heads = [](int64_t h, int64_t k, Attributes more = {}) {
    more.push_back({RT_ATTR_HEADS, h});
    more.push_back({RT_ATTR_KEY_HEADS, k});
    return more;
  };
  const auto refused = [&](const std::vector<Dims>& inputs, const Attributes& attributes) {
    return refusal(operation(RT_OP_DOT_PRODUCT_ATTENTION, inputs, {{2, 4, 6}}, attributes));
  };
  const std::vector<Dims> fits = {{2, 4, 6}, {2, 4, 6}, {2, 4, 6}};
  EXPECT_EQ(refused(fits, heads(3, 3)), "");
  EXPECT_THAT(refused(fits, heads(3, 2)),
              AllOf(HasSubstr("3 heads, 2 key heads"), HasSubstr("that divide heads")));
  EXPECT_THAT(refused({{2, 4, 6}, {2, 4, 4}, {2, 4, 6}}, heads(3, 3)), HasSubstr("k [2, 4, 4]"));
  EXPECT_THAT(refused(fits, heads(3, 3, {{RT_ATTR_WINDOW, int64_t{2}}})),
              HasSubstr("a window needs causal"));
  EXPECT_THAT(refused(fits, heads(3, 3, {{RT_ATTR_SCALE, -1.0}})), HasSubstr("scale is -1"));
  EXPECT_THAT(refused(fits, heads(3, 3, {{RT_ATTR_PROBABILITY, 1.0}})),
              HasSubstr("probability is 1"));
  EXPECT_THAT(refused(fits, heads(3, 3, {{RT_ATTR_PROBABILITY, 0.5}})),
              HasSubstr("expected none, step and base"));
  Form f{2, 4, 4, 3, 3, 2, 2};
  f.documents = 5;
  EXPECT_THAT(refusal(f.forward()),
              AllOf(HasSubstr("(documents) is int32 [2, 5]"), HasSubstr("int32 [2, 8]")));
}

}  // namespace
}  // namespace backends::reference::testing
