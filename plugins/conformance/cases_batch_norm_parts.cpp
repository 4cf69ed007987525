// Batch normalisation over several ranks: padded rows, and statistics of ranks without samples.
#include "plugins/conformance/builder.h"

namespace plugins::conformance {
namespace {

constexpr double kEpsilonOfParts = 1e-5;
const Values kXOfParts{-2.0, 3.0, 11};
const Values kPositive{0.5, 2.0};

// Weights of the samples (rows); a sample of weight 0 is padding.
struct Rows {
  const char* label;
  Values weight;
};
const Rows kReal{"", {0.1, 1.0}};
const Rows kPadded{" padded rows", {0.1, 1.0, 1, 3}};
const Rows kNoneReal{" all rows padded", {0.0, 0.0}};

Dims moments_of(const Dims& x) { return {2 * x.back() + 1}; }

// Fills the whole operand `moments` (means, variances and the number of elements) with positive
// values, because variances and the number must be positive.
Builder apply(rt_dtype dtype, const Dims& x) {
  const Dims c = {x.back()};
  Builder b(RT_OP_BATCH_NORM_APPLY, dtype, label(x));
  b.in(x, kXOfParts).wide_in(c, kPositive).wide_in(c).wide_in(moments_of(x), kPositive).out(x);
  return b.number(RT_ATTR_EPSILON, kEpsilonOfParts);
}

Builder backward_statistics(rt_dtype dtype, const Dims& x) {
  Builder b(RT_OP_BATCH_NORM_BACKWARD_STATISTICS, dtype, label(x));
  b.in(x).in(x, kXOfParts).wide_in(moments_of(x), kPositive).wide_out({1, 2 * x.back()});
  return b.number(RT_ATTR_EPSILON, kEpsilonOfParts);
}

Builder statistics(rt_dtype dtype, const Dims& x, const Rows& rows) {
  Builder b(RT_OP_BATCH_NORM_STATISTICS, dtype, label(x) + rows.label);
  return b.in(x, kXOfParts).wide_in({x.front()}, rows.weight).wide_out({1, 2 * x.back() + 1});
}

Builder backward_apply(rt_dtype dtype, const Dims& x, const Rows& rows, const Values& moments) {
  const Dims c = {x.back()}, sums = {2 * x.back()};
  Builder b(RT_OP_BATCH_NORM_BACKWARD_APPLY, dtype, label(x) + rows.label);
  b.in(x).in(x, kXOfParts).wide_in(c, kPositive).wide_in(moments_of(x), moments);
  b.wide_in(sums).wide_in({x.front()}, rows.weight).out(x);
  return b.number(RT_ATTR_EPSILON, kEpsilonOfParts);
}

Builder merge(rt_dtype dtype, const Dims& parts, const std::string& what, int64_t zero_every) {
  const Dims c = {parts[1] / 2};
  Builder b(RT_OP_BATCH_NORM_MERGE, dtype, label(parts) + what);
  b.in(parts, Values{1.0, 4.0, 1, zero_every}).in(c).in(c, kPositive);
  return b.out({parts[1]}).out(c).out(c).number(RT_ATTR_MOMENTUM, 0.2);
}

void add_merges(Cases& cases, rt_dtype dtype, int64_t width) {
  cases.push_back(merge(dtype, {1, width}, "", 0));
  cases.push_back(merge(dtype, {6, width}, "", 0));
  cases.push_back(merge(dtype, {6, width}, " parts without samples between", 2 * width));
  cases.push_back(merge(dtype, {6, width}, " no part has samples", width));
  cases.push_back(merge(dtype, {4, 3}, " parts without samples between", 6));
  cases.push_back(merge(dtype, {3, 129}, "", 0));
}

}  // namespace

void add_batch_norm_parts(Cases& cases, rt_dtype dtype) {
  for (const Dims& x : {Dims{6, 5}, Dims{64, 50}, Dims{300, 130}, Dims{5, 5, 7, 3},
                        Dims{4, 9, 9, 64}, Dims{4, 3, 20}, Dims{7, 40, 40, 1}}) {
    for (const Rows& rows : {kReal, kPadded, kNoneReal}) {
      cases.push_back(statistics(dtype, x, rows));
      cases.push_back(backward_apply(dtype, x, rows, kPositive));
    }
    cases.push_back(apply(dtype, x));
    cases.push_back(backward_statistics(dtype, x));
  }
  // Every (2C+1)-th number is the number n of elements of one rank.
  const int64_t width = 2 * 5 + 1;
  const Values no_count{0.5, 2.0, 1, width};
  cases.push_back(backward_apply(dtype, {6, 5}, kReal, no_count).rename("without samples"));
  if (!is_sixteen_bit(dtype)) add_merges(cases, dtype, width);
  const Dims image = {2, 4, 4, 16};
  cases.push_back(apply(dtype, image).rename("bias tanh").bias().activation(RT_ACTIVATION_TANH));
  cases.push_back(
      apply(dtype, image).rename("residual relu").residual().activation(RT_ACTIVATION_RELU));
  const Dims empty = {0, 3, 4};
  cases.push_back(statistics(dtype, empty, kReal));
  cases.push_back(apply(dtype, empty));
  cases.push_back(backward_statistics(dtype, empty));
  cases.push_back(backward_apply(dtype, empty, kReal, kPositive));
}

}  // namespace plugins::conformance
