// These tests show which results are beyond their bound, and which ones rounding excuses.
#include "tools/verify/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/error.h"
#include "runtime/exec/encode.h"
#include "runtime/train/weights.h"
#include "tests/runtime/support/devices.h"
#include "tests/tools/verify/operations.h"
#include "tools/verify/shrink.h"

namespace runtime::verify {
namespace {

using testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

data::HostTensor tensor(const std::vector<double>& numbers, rt_dtype dtype = RT_FLOAT32) {
  return {dtype, {static_cast<int64_t>(numbers.size())}, exec::encode(numbers, dtype)};
}
data::HostTensor expected(const std::vector<double>& numbers) {
  return tensor(numbers, RT_FLOAT64);
}

TEST(Compare, ByTheNormAndByTheWorstElement) {
  const Bound bound{1e-5};
  EXPECT_TRUE(compare(tensor({1, 2, 3}), expected({1, 2, 3.00001}), bound).right);
  const Verdict v = compare(tensor({1, 2, 3}), expected({1, 2.01, 3}), bound);
  EXPECT_FALSE(v.right);
  EXPECT_EQ(v.index, std::vector<int64_t>{1});
  EXPECT_EQ(v.actual, 2);
  EXPECT_EQ(v.expected, 2.01);
  EXPECT_NEAR(v.error, 0.01 / std::sqrt(1 + 2.01 * 2.01 + 9), 1e-6);
}

TEST(Compare, OneElementDoesNotHideAmongMillions) {
  std::vector<double> numbers(4000000, 1.0);
  const data::HostTensor right = expected(numbers);
  numbers[123456] = 1.001;  // 5e-7 of the norm
  const Verdict v = compare(tensor(numbers), right, {1e-5});
  EXPECT_FALSE(v.right);
  EXPECT_TRUE(v.single);
  EXPECT_EQ(v.index, std::vector<int64_t>{123456});
}

TEST(Compare, WhatIsNotFinite) {
  EXPECT_FALSE(compare(tensor({kNan, 1}), expected({0, 1}), {1e-5}).right);
  EXPECT_FALSE(compare(tensor({0, 1}), expected({kNan, 1}), {1e-5}).right);
  EXPECT_TRUE(compare(tensor({kNan, 1}), expected({kNan, 1}), {1e-5}).right);
  EXPECT_TRUE(compare(tensor({kNan, 1}), expected({0, 1}), {1e-5}, false).right);
  // 70000 overflows the type of the result.
  EXPECT_TRUE(compare(tensor({kInfinity}, RT_FLOAT16), expected({70000}), {1e-3}).right);
  EXPECT_FALSE(compare(tensor({kInfinity}, RT_FLOAT16), expected({6000}), {1e-3}).right);
}

TEST(Compare, WithoutAToleranceEveryBitCounts) {
  EXPECT_TRUE(compare(tensor({0.5, 3}), expected({0.5, 3}), {0}).right);
  EXPECT_FALSE(compare(tensor({0.5, 3}), expected({0.5, std::nextafter(3.0, 4.0)}), {0}).right);
}

TEST(Judge, ASumThatCancelsIsExcusedByItsTerms) {
  const auto device = test::open_device("reference");
  const Judge judge(device);
  // 1e4 - 1e4 + 1: the last bits of the large terms are 6e-4 of the result.
  const IsolatedOperation op = test::dot_product({1e4, -1e4, 1}, {1, 1, 1});
  const HostTensors right = judge.expect(op);
  const auto verdict = [&](double result) {
    return judge.judge(*device, op, {{RT_FLOAT32, {1, 1}, exec::encode({result}, RT_FLOAT32)}},
                       right);
  };
  EXPECT_TRUE(verdict(1.0).right);
  EXPECT_TRUE(verdict(1.004).right);
  EXPECT_FALSE(verdict(2.0).right);
  // Without cancellation, rounding does not explain an error of the same size.
  const IsolatedOperation plain = test::dot_product({1, 1, 1}, {1, 1, 1});
  EXPECT_FALSE(judge
                   .judge(*device, plain, {{RT_FLOAT32, {1, 1}, exec::encode({3.004}, RT_FLOAT32)}},
                          judge.expect(plain))
                   .right);
}

TEST(Judge, TheDefinitionIsComputedInFloat64) {
  const Judge judge(test::open_device("reference"));
  const HostTensors result = judge.expect(test::dot_product({1, 1e-9}, {1, 1}));
  EXPECT_EQ(result[0].dtype, RT_FLOAT64);
  EXPECT_EQ(train::numbers_of(result[0])[0], 1 + static_cast<double>(1e-9F));
}

TEST(Judge, AClaimWidensTheBoundAsFarAsTheContractAllows) {
  EXPECT_EQ(tolerance_with_claim(1e-5, RT_FLOAT32, 5e-4), 5e-4);
  EXPECT_EQ(tolerance_with_claim(1e-5, RT_FLOAT32, 0.5), 1e-3);
  EXPECT_EQ(tolerance_with_claim(1e-5, RT_FLOAT32, 0), 1e-5);
  EXPECT_EQ(tolerance_with_claim(0, RT_FLOAT32, 5e-4), 0);
}

TEST(Judge, WhatIsNoOperationIsRefused) {
  const Judge judge(test::open_device("reference"));
  IsolatedOperation wrong = test::convolution(2);
  wrong.operation.outputs[0].dims[1] = 7;
  EXPECT_THAT(test::message_of<DataError>([&] { judge.check(wrong); }),
              HasSubstr("is no operation of reference:0"));
  // A forward operation on fewer rows saves less data than its backward operation would read.
  IsolatedOperation gradient = test::pooling_gradient(4);
  judge.check(gradient);
  const IsolatedOperation smaller = test::pooling_gradient(1);
  gradient.forward = smaller.forward;
  gradient.forward_inputs = smaller.forward_inputs;
  EXPECT_THAT(test::message_of<DataError>([&] { judge.check(gradient); }),
              HasSubstr("'max_pool2d' is not the forward of 'max_pool2d_backward'"));
  gradient.forward.reset();
  gradient.forward_inputs.clear();
  EXPECT_THAT(test::message_of<DataError>([&] { judge.check(gradient); }),
              HasSubstr("expected a case with all that the operation reads"));
}

TEST(Shrink, RowsOfTheBatchAndOfTheForward) {
  const auto part = with_rows(test::pooling_gradient(6), 2, 3);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->operation.inputs[0].dims[0], 3);
  EXPECT_EQ(part->operation.outputs[0].dims[0], 3);
  EXPECT_EQ(part->forward->inputs[0].dims[0], 3);
  EXPECT_EQ(part->forward_inputs[0].bytes.size(), 3 * 4 * 4 * 3 * sizeof(float));
  const std::vector<double> whole = train::numbers_of(test::pooling_gradient(6).inputs[0]);
  EXPECT_EQ(train::numbers_of(part->inputs[0])[0], whole[2 * 2 * 2 * 3]);
  // Weights are not cut, although there are as many filters as samples. A single row cannot be cut.
  const auto convolution = with_rows(test::convolution(16), 0, 8);
  ASSERT_TRUE(convolution);
  EXPECT_EQ(convolution->operation.inputs[1].dims[0], 16);
  EXPECT_EQ(convolution->operation.inputs[2].dims[0], 16);
  EXPECT_FALSE(with_rows(test::convolution(1), 0, 0));
}

TEST(Shrink, ToTheRowThatIsWrong) {
  const auto device = test::open_device("simulated", {{"corrupt", "conv2d"}});
  const Judge judge(test::open_device("reference"));
  auto wrong = reproduce(judge, device, test::convolution(11));
  ASSERT_TRUE(wrong);
  const Reproduced small = shrink_rows(judge, device, std::move(*wrong));
  EXPECT_EQ(small.isolated.operation.inputs[0].dims[0], 1);
  EXPECT_FALSE(small.verdict.right);
  EXPECT_FALSE(reproduce(judge, test::open_device("simulated"), test::convolution(11)));
}

}  // namespace
}  // namespace runtime::verify
