// Answers of query: refusals, candidates, canonical layouts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rt/sdk/answer.h"
#include "rt/sdk/expect.h"
#include "tests/plugins/sdk/description.h"

namespace rt::sdk {
namespace {

using testing::HasSubstr;

constexpr Offer kOffer = {.implementation = "mine"};

// An answer with room for two candidates.
struct KernelAnswer {
  rt_candidate candidates[2] = {};
  rt_support support{};
  KernelAnswer() {
    candidates[0].size = sizeof(rt_candidate);
    support.size = sizeof(support);
    support.candidates = candidates;
    support.candidate_capacity = 2;
  }
};

TEST(AnswerQuery, ListsTheOnlyCandidateInCanonicalLayouts) {
  Description d(RT_OP_SCALE);
  d.in({2, 3}, RT_FLOAT32, RT_LAYOUT_ANY).out({2, 3});
  KernelAnswer a;
  answer_query(Operation(d.desc()), kOffer, &a.support, [](const Operation&) {});
  EXPECT_EQ(a.support.level, RT_SUPPORT_NATIVE);
  EXPECT_EQ(a.support.deterministic, 1);
  ASSERT_EQ(a.support.candidate_count, 1u);
  EXPECT_EQ(a.candidates[0].algorithm, kOnlyAlgorithm);
  EXPECT_EQ(a.candidates[0].input_layouts[0], RT_LAYOUT_CANONICAL);
  EXPECT_EQ(a.candidates[0].input_bytes[0], 24u);
  EXPECT_EQ(a.candidates[0].output_bytes[0], 24u);
  EXPECT_STREQ(a.candidates[0].implementation, "mine");
  EXPECT_EQ(a.candidates[1].algorithm, 0u) << "only one was written";
}

TEST(AnswerQuery, CountsCandidatesWithoutRoomForThem) {
  Description d(RT_OP_SCALE);
  d.in({1}).out({1});
  KernelAnswer a;
  a.support.candidates = nullptr;
  a.support.candidate_capacity = 0;
  answer_query(Operation(d.desc()), kOffer, &a.support, [](const Operation&) {});
  EXPECT_EQ(a.support.candidate_count, 1u);
}

TEST(AnswerQuery, TurnsARefusalIntoAnAnswerThatNamesTheOperand) {
  Description d(RT_OP_CONV2D);
  d.in({1}).in({8, 3, 3, 4}, RT_FLOAT16).out({1}, RT_FLOAT64);
  KernelAnswer a;
  const Operation op(d.desc());
  answer_query(op, kOffer, &a.support,
               [](const Operation& o) { refuse_input(o, 1, "w", "cast it to float32"); });
  EXPECT_EQ(a.support.level, RT_SUPPORT_REFUSED);
  EXPECT_EQ(a.support.reason_operand, 1);
  EXPECT_EQ(a.support.candidate_count, 0u);
  EXPECT_STREQ(a.support.reason,
               "conv2d: operand 1 (w) is float16 [8, 3, 3, 4]; cast it to float32");
  answer_query(op, kOffer, &a.support, [](const Operation& o) { refuse_output(o, 0, "y", "no"); });
  EXPECT_EQ(a.support.reason_operand, 100);
  EXPECT_STREQ(a.support.reason, "conv2d: output 0 (y) is float64 [1]; no");
  answer_query(op, kOffer, &a.support, [](const Operation& o) { refuse(o, "unknown"); });
  EXPECT_EQ(a.support.reason_operand, -1);
  answer_query(op, kOffer, &a.support,
               [](const Operation&) { throw Error(RT_ERROR_UNSUPPORTED, "without an operand"); });
  EXPECT_STREQ(a.support.reason, "without an operand");
}

TEST(AnswerQuery, ThrowsForADescriptionThatIsWrong) {
  Description d(RT_OP_SCALE);
  d.in({2});
  KernelAnswer a;
  EXPECT_EQ(error_of([&] {
              answer_query(Operation(d.desc()), kOffer, &a.support,
                           [](const Operation& o) { expect_counts(o, 1, 1); });
            }),
            "scale: 1 inputs and 0 outputs given (those of post-operations not counted), expected "
            "1 and 1");
}

TEST(AnswerQuery, ShowsOnlyThePostOperationsThatAreFused) {
  Description d(RT_OP_ADD);
  d.in({2}).in({2}).out({2}).post_op(RT_POST_ACTIVATION, 1).post_op(RT_POST_ACTIVATION, 4);
  for (uint32_t fused : {0u, 1u, 2u}) {
    KernelAnswer a;
    Offer offer = kOffer;
    offer.post_ops_fused = fused;
    answer_query(Operation(d.desc()), offer, &a.support,
                 [&](const Operation& o) { EXPECT_EQ(o.post_op_count(), fused); });
    EXPECT_EQ(a.support.post_ops_fused, fused);
  }
}

TEST(CanonicalLayout, OthersAreRefused) {
  Description d(RT_OP_SCALE);
  d.in({2}, RT_FLOAT32, 77).out({2});
  KernelAnswer a;
  answer_query(Operation(d.desc()), kOffer, &a.support, [](const Operation&) {});
  EXPECT_EQ(a.support.reason_operand, 0);
  EXPECT_THAT(a.support.reason, HasSubstr("operand 0 has layout 0x4d"));
  Description any(RT_OP_SCALE);
  any.in({2}, RT_FLOAT32, RT_LAYOUT_ANY).out({2});
  EXPECT_THAT(error_of([&] { expect_plannable(Operation(any.desc())); }),
              HasSubstr("only the canonical layout (0) is known"));
}

TEST(CanonicalLayout, RefusesImpossibleSizes) {
  Description d(RT_OP_SCALE);
  d.in({int64_t{1} << 40, int64_t{1} << 40}).out({-1});
  const Operation op(d.desc());
  EXPECT_THAT(error_of([&] { expect_canonical(op, false, 0, false); }),
              HasSubstr("operand 0: dimension 1 is 1099511627776"));
  EXPECT_THAT(error_of([&] { expect_canonical(op, true, 0, false); }),
              HasSubstr("output 0: dimension 0 is -1"));
}

TEST(CanonicalLayout, FillsTheSlotsOfTheTable) {
  Description d(RT_OP_SCALE);
  rt_tensor_desc tensor = *d.in({3, 5}, RT_FLOAT64).desc()->inputs[0];
  uint64_t bytes = 0;
  char name[16];
  EXPECT_EQ(canonical_layout_bytes(nullptr, &tensor, &bytes, nullptr), RT_OK);
  EXPECT_EQ(bytes, 120u);
  EXPECT_EQ(canonical_layout_name(nullptr, &tensor, name, sizeof(name), nullptr), RT_OK);
  EXPECT_STREQ(name, "canonical");
  tensor.layout = 5;
  EXPECT_EQ(canonical_layout_bytes(nullptr, &tensor, &bytes, nullptr), RT_ERROR_UNSUPPORTED);
}

TEST(Expect, ComputedTypeNamesTheTypesThatThereAre) {
  Description d(RT_OP_ADD);
  d.in({2}, RT_BFLOAT16);
  const Operation op(d.desc());
  const uint64_t types = RT_DTYPE_BIT(RT_FLOAT32) | RT_DTYPE_BIT(RT_FLOAT64);
  EXPECT_EQ(error_of([&] { computed_type(op, 0, "a", types); }),
            "add: operand 0 (a) is bfloat16 [2]; this device computes in float32, float64; cast "
            "the operand");
  EXPECT_EQ(computed_type(op, 0, "a", RT_DTYPE_BIT(RT_BFLOAT16)), RT_BFLOAT16);
}

TEST(Expect, QuotesActualAndExpectedDims) {
  Description d(RT_OP_ADD);
  d.in({2, 3}).integer(RT_ATTR_STRIDE_H, 0);
  const Operation op(d.desc());
  EXPECT_EQ(error_of([&] {
              expect_input(op, 0, "a", RT_FLOAT32, {3, 2});
            }),
            "add: operand 0 (a) is float32 [2, 3], expected float32 [3, 2]");
  EXPECT_EQ(error_of([&] { input_of_rank(op, 0, "a", 4); }),
            "add: operand 0 (a) is float32 [2, 3] with 2 dimensions, expected 4");
  EXPECT_EQ(error_of([&] { integer_at_least(op, RT_ATTR_STRIDE_H, 1, 1); }),
            "add: stride_h is 0, expected at least 1");
  EXPECT_EQ(strides_of({2, 3, 5}), (Dims{15, 5, 1}));
}

}  // namespace
}  // namespace rt::sdk
