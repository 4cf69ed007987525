// The cpu plugin computes in bfloat16 only by the processor's instructions for it, and says what is
// missing where it does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "backends/cpu/bfloat16/obstacle.h"
#include "backends/cpu/bfloat16/processor.h"
#include "rt/operations.h"
#include "tests/backends/cpu/support.h"

namespace tests::cpu {
namespace {

using backends::cpu::bfloat16_obstacle;
using backends::cpu::Isa;
using testing::AllOf;
using testing::HasSubstr;

TEST(CpuBfloat16Obstacle, ThereIsNoneIfNothingIsMissing) {
  EXPECT_EQ(bfloat16_obstacle({true, "a processor", std::nullopt, true}), "");
}

TEST(CpuBfloat16Obstacle, AProcessorWithoutTheInstructionsIsNamedWithTheRemedy) {
  for (const bool onednn : {false, true}) {
    EXPECT_THAT(bfloat16_obstacle({false, "Old Processor 5", std::nullopt, onednn}),
                AllOf(HasSubstr("AVX512-BF16"), HasSubstr("Old Processor 5"),
                      HasSubstr("training.mixed_precision = \"none\"")));
  }
}

TEST(CpuBfloat16Obstacle, ALimitOfTheInstructionSetIsNamed) {
  EXPECT_THAT(bfloat16_obstacle({true, "a processor", Isa::kAvx512, false}),
              AllOf(HasSubstr("isa = \"avx512\" leaves out"), HasSubstr("isa = \"native\"")));
  EXPECT_THAT(bfloat16_obstacle({true, "a processor", std::nullopt, false}),
              HasSubstr("unset ONEDNN_MAX_CPU_ISA"));
}

host::Operation product() {
  host::Operation op;
  op.name = RT_OP_MATMUL;
  op.inputs = {tensor({16, 32}, RT_BFLOAT16), tensor({32, 8}, RT_BFLOAT16)};
  op.outputs = {tensor({16, 8}, RT_BFLOAT16)};
  return op;
}

host::Operation relu() {
  host::Operation op;
  op.name = RT_OP_ACTIVATION;
  op.inputs = op.outputs = {tensor({64}, RT_BFLOAT16)};
  op.attributes = {{RT_ATTR_FUNCTION, int64_t{RT_ACTIVATION_RELU}}};
  return op;
}

// Returns an empty text if both operations are refused with `reason`, else the fault.
std::string unless_refused(host::Device& device, const std::string& reason) {
  for (const host::Operation& op : {product(), relu()}) {
    const host::Support support = device.query(op);
    if (support.level != RT_SUPPORT_REFUSED) return op.name + " is not refused";
    if (support.reason.find(reason) == std::string::npos) return op.name + ": " + support.reason;
  }
  return {};
}

TEST(CpuBfloat16, ItIsRefusedBelowALimitOfTheInstructionSet) {
  if (!backends::cpu::has_bfloat16()) GTEST_SKIP() << "this processor has no AVX512-BF16";
  for (const std::string isa : {"avx512", "avx2", "sse41"}) {
    expect_in_own_process([=] {
      return unless_refused(*open({1, {{"isa", isa}}}), "isa = \"" + isa + "\" leaves out");
    });
  }
}

TEST(CpuBfloat16, ItIsRefusedIfTheEnvironmentLimitsOneDnn) {
  if (!backends::cpu::has_bfloat16()) GTEST_SKIP() << "this processor has no AVX512-BF16";
  expect_in_own_process([] {
    setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE", 1);
    return unless_refused(*open(), "unset ONEDNN_MAX_CPU_ISA");
  });
}

TEST(CpuBfloat16, TheDeviceOffersWhatItsProcessorHas) {
  expect_in_own_process([]() -> std::string {
    const auto device = open();
    const uint64_t types = device->properties().compute_dtypes;
    const bool offered = (types & RT_DTYPE_BIT(RT_BFLOAT16)) != 0;
    if (offered != backends::cpu::has_bfloat16()) return "its types do not say so";
    if (!offered) return unless_refused(*device, "needs a processor with AVX512-BF16");
    for (const host::Operation& op : {product(), relu()}) {
      const host::Support support = device->query(op);
      if (support.level != RT_SUPPORT_NATIVE) return op.name + ": " + support.reason;
    }
    return {};
  });
}

// Images of 2 columns with 4 columns of padding, under a filter of 3 columns: the last output sees
// padding only, and so does the last tap without it.
host::Operation unusual_convolution(bool gradient) {
  const int64_t right = gradient ? 2 : 4;
  host::Operation op;
  const rt_tensor_desc x = tensor({4, 8, 2, 8}, RT_BFLOAT16), w = tensor({8, 3, 3, 8}, RT_BFLOAT16);
  const rt_tensor_desc y = tensor({4, 6, right, 8}, RT_BFLOAT16);
  op.name = gradient ? RT_OP_CONV2D_BACKWARD_WEIGHTS : RT_OP_CONV2D;
  op.inputs = {x, gradient ? y : w};
  op.outputs = {gradient ? w : y};
  op.attributes = {{RT_ATTR_PAD_RIGHT, right}};
  return op;
}

TEST(CpuBfloat16, WhatOneDnnGetsWrongIsDoneOnCopiesInFloat32) {
  if (!backends::cpu::has_bfloat16()) GTEST_SKIP() << "this processor has no AVX512-BF16";
  expect_in_own_process([]() -> std::string {
    const auto device = open();
    for (const bool gradient : {false, true}) {
      const host::Support support = device->query(unusual_convolution(gradient));
      if (support.candidates.empty()) return "refused: " + support.reason;
      for (const rt_candidate& c : support.candidates) {
        const std::string name = c.implementation;
        if (name.find("bfloat16:widened:") != 0) return name;
      }
    }
    return {};
  });
}

}  // namespace
}  // namespace tests::cpu
