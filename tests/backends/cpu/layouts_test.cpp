// Tests what query offers: layouts that mean the same on every device, algorithms that can be
// switched off, post-operations, refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "plugins/host/error.h"
#include "rt/sdk/post_ops.h"
#include "tests/backends/cpu/support.h"

namespace tests::cpu {
namespace {

using testing::HasSubstr;

// The foreign layouts of all candidates, in their order.
std::vector<uint64_t> foreign_layouts(host::Device& device, const host::Operation& op) {
  std::vector<uint64_t> ids;
  for (const rt_candidate& c : device.query(any_layouts(op)).candidates) {
    ids.insert(ids.end(),
               {c.algorithm, c.input_layouts[0], c.input_layouts[1], c.output_layouts[0]});
  }
  return ids;
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const host::Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(CpuLayouts, SameIdsInEveryDevice) {
  const auto a = open({1, {}}), b = open({1, {}});
  b->query(any_layouts(convolution(8, 32)));  // a device with another history of queries
  EXPECT_EQ(foreign_layouts(*a, convolution()), foreign_layouts(*b, convolution()));
}

TEST(CpuLayouts, DifferWithTheShape) {
  const auto device = open({1, {}});
  EXPECT_NE(foreign_layouts(*device, convolution(16, 64)),
            foreign_layouts(*device, convolution(8, 64)));
}

// dw [32,1,1,16] of a 1x1 convolution with stride 2: on AVX2, the implementation of oneDNN that
// comes first for some layouts reads outside of the images.
host::Operation strided_gradient() {
  host::Operation op;
  op.name = RT_OP_CONV2D_BACKWARD_WEIGHTS;
  op.inputs = {tensor({16, 12, 12, 16}), tensor({16, 6, 6, 32})};
  op.outputs = {tensor({32, 1, 1, 16})};
  op.attributes = {{RT_ATTR_STRIDE_H, int64_t{2}}, {RT_ATTR_STRIDE_W, int64_t{2}}};
  return op;
}

// A query asks oneDNN for the next implementation, for which its description must still be there.
TEST(CpuLayouts, AnImplementationThatReadsOutsideIsPassedOver) {
  expect_in_own_process([]() -> std::string {
    const auto device = open({1, {{"isa", "avx2"}}});
    const host::Support support = device->query(any_layouts(strided_gradient()));
    if (support.candidates.empty()) return "refused: " + support.reason;
    for (const rt_candidate& c : support.candidates) {
      const std::string name = c.implementation;
      const bool nhwc = c.input_layouts[0] == RT_LAYOUT_CANONICAL;
      if (nhwc && name.find("jit_1x1:avx2") != std::string::npos) return name;
    }
    return {};
  });
}

TEST(CpuLayouts, CandidatesHaveNamesSizesAndCosts) {
  const auto device = open({1, {}});
  host::Operation op = convolution();
  const host::Support support = device->query(any_layouts(op));
  ASSERT_GE(support.candidates.size(), 3u);
  for (const rt_candidate& c : support.candidates) {
    EXPECT_GT(c.estimated_ns, 0);
    EXPECT_NE(c.algorithm, 0u);
    EXPECT_NE(std::string(c.implementation), "");
    op.inputs[1].layout = c.input_layouts[1];
    EXPECT_EQ(device->layout_bytes(op.inputs[1]), c.input_bytes[1]);
    EXPECT_GE(c.input_bytes[1], uint64_t{64 * 3 * 3 * 64 * 4});
    EXPECT_NE(device->layout_name(op.inputs[1]), "");
  }
}

TEST(CpuLayouts, UnknownIdIsAnError) {
  const auto device = open({1, {}});
  rt_tensor_desc t = tensor({2, 4, 4, 8});
  t.layout = 0x1234;
  EXPECT_THAT(error_of([&] { device->layout_bytes(t); }),
              HasSubstr("layout 0000000000001234 of float32 [2, 4, 4, 8] is unknown"));
}

TEST(CpuLayouts, ActivationFollowsItsInput) {
  const auto device = open({1, {}});
  uint64_t blocked = RT_LAYOUT_CANONICAL;
  for (const rt_candidate& c : device->query(any_layouts(convolution())).candidates) {
    if (c.output_layouts[0] != RT_LAYOUT_CANONICAL) blocked = c.output_layouts[0];
  }
  ASSERT_NE(blocked, RT_LAYOUT_CANONICAL);
  host::Operation op;
  op.name = RT_OP_ACTIVATION;
  op.inputs = op.outputs = {tensor({4, 16, 16, 64})};
  op.attributes = {{RT_ATTR_FUNCTION, int64_t{RT_ACTIVATION_RELU}}};
  op.inputs[0].layout = blocked;
  op.outputs[0].layout = RT_LAYOUT_ANY;
  const host::Support support = device->query(op);
  ASSERT_EQ(support.candidates.size(), 1u) << support.reason;
  EXPECT_EQ(support.candidates[0].output_layouts[0], blocked);
}

// A provider once mistook another provider's layout for its own and read beyond the tensor.
TEST(CpuLayouts, ConvolutionIsNotOfferedInAnUnknownLayout) {
  const auto device = open({1, {}});
  for (size_t operand : {0u, 1u}) {
    host::Operation op = any_layouts(convolution());
    op.inputs[operand].layout = 0x1234;
    EXPECT_TRUE(device->query(op).candidates.empty()) << "operand " << operand;
  }
}

bool offers_winograd(host::Device& device) {
  for (const rt_candidate& c : device.query(any_layouts(convolution())).candidates) {
    if (std::string(c.implementation).find("winograd") != std::string::npos) return true;
  }
  return false;
}

TEST(CpuLayouts, WinogradCanBeSwitchedOff) {
  EXPECT_FALSE(offers_winograd(*open({1, {{"winograd", "false"}}})));
  EXPECT_THAT(error_of([] {
                open({1, {{"winograd", "maybe"}}});
              }),
              HasSubstr("option 'winograd' is 'maybe'; expected true or false"));
}

TEST(CpuLayouts, Float64IsRefusedWithTheWayOut) {
  host::Operation op;
  op.name = RT_OP_SCALE;
  op.inputs = op.outputs = {tensor({3}, RT_FLOAT64)};
  const host::Support support = open({1, {}})->query(op);
  EXPECT_EQ(support.level, RT_SUPPORT_REFUSED);
  EXPECT_EQ(support.reason_operand, 0);
  EXPECT_EQ(support.reason,
            "the cpu backend computes in float32; use device.backend = \"reference\" for float64");
}

TEST(CpuLayouts, UnknownOperationIsRefusedByName) {
  host::Operation op;
  op.name = "fourier";
  op.inputs = op.outputs = {tensor({3})};
  EXPECT_THAT(open({1, {}})->query(op).reason, HasSubstr("fourier"));
}

TEST(CpuLayouts, WrongShapesAreAnError) {
  host::Operation op = convolution();
  op.outputs[0] = tensor({4, 15, 16, 64});
  EXPECT_THAT(error_of([&] {
                open({1, {}})->query(op);
              }),
              HasSubstr("height axis: input 16 gives output 16, the description says 15"));
}

TEST(CpuKernels, ReluAndClippingKeepNaN) {
  const auto device = open({1, {}});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  host::Operation relu;
  relu.name = RT_OP_ACTIVATION;
  relu.inputs = relu.outputs = {tensor({33})};
  relu.attributes = {{RT_ATTR_FUNCTION, int64_t{RT_ACTIVATION_RELU}}};
  for (const float y : run(*device, relu, {Floats(33, nan)})) EXPECT_TRUE(std::isnan(y));
  host::Operation clip;
  clip.name = RT_OP_CLIP_SCALE;
  clip.inputs = clip.outputs = {tensor({1})};
  clip.attributes = {{RT_ATTR_MAX_NORM, 1.0}};
  EXPECT_TRUE(std::isnan(run(*device, clip, {{nan}})[0]));
}

TEST(CpuKernels, FunctionsOfActivationAloneAreNothingElse) {
  const auto device = open({1, {}});
  for (const int32_t f : rt::sdk::kForwardOnly) {
    host::Operation op = convolution();
    op.inputs.push_back(tensor({64}));
    op.inputs.push_back(op.outputs[0]);
    op.post_ops = {{RT_POST_BIAS, 0, 2}, {RT_POST_ACTIVATION, f, -1}, {RT_POST_RESIDUAL_ADD, 0, 3}};
    const host::Support support = device->query(op);
    EXPECT_EQ(support.post_ops_fused, 1u);
    EXPECT_FALSE(support.candidates.empty());
    op.name = RT_OP_ACTIVATION_BACKWARD;
    op.inputs = {tensor({9}), tensor({9})};
    op.outputs = {tensor({9})};
    op.post_ops.clear();
    op.attributes = {{RT_ATTR_FUNCTION, int64_t{f}}};
    EXPECT_EQ(device->query(op).level, RT_SUPPORT_REFUSED);
    EXPECT_THAT(device->query(op).reason, HasSubstr("activation only"));
    EXPECT_THAT(error_of([&] { device->create_kernel(op); }), HasSubstr("activation only"));
  }
}

// Each number is far from a multiple of ln 2 or close to one, denormal, or near an end of the type.
TEST(CpuKernels, LogAndExpAreRightOverTheWholeType) {
  const auto device = open({1, {}});
  Floats x;
  for (float v = 1e-44f; v < 2e38f; v *= 1.37f) x.push_back(v);
  for (float v = 0.6f; v < 1.5f; v += 0.01f) x.push_back(v);
  host::Operation op;
  op.name = RT_OP_ACTIVATION;
  op.inputs = op.outputs = {tensor({static_cast<int64_t>(x.size())})};
  op.attributes = {{RT_ATTR_FUNCTION, int64_t{RT_ACTIVATION_LOG}}};
  const Floats y = run(*device, op, {x});
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = std::log(static_cast<double>(x[i]));
    EXPECT_NEAR(y[i], expected, 3e-7 * std::abs(expected)) << "log(" << x[i] << ")";
  }
  op.attributes = {{RT_ATTR_FUNCTION, int64_t{RT_ACTIVATION_EXP}}};
  const Floats z = run(*device, op, {y});
  for (size_t i = 0; i < y.size(); ++i) {
    const double expected = std::exp(static_cast<double>(y[i]));
    EXPECT_NEAR(z[i], expected, 3e-7 * expected + 1.3e-38) << "exp(" << y[i] << ")";
  }
}

TEST(CpuKernels, EmbeddingNamesTheBadIndex) {
  host::Operation op;
  op.name = RT_OP_EMBEDDING;
  op.inputs = {tensor({2}, RT_INT32), tensor({4, 3})};
  op.outputs = {tensor({2, 3})};
  Floats indices(2);
  const int32_t values[2] = {1, 4};
  std::memcpy(indices.data(), values, sizeof(values));
  EXPECT_THAT(error_of([&] {
                run(*open({1, {}}), op, {indices, ramp(12)});
              }),
              HasSubstr("index 4 at position 1; the table has rows 0 to 3"));
}

TEST(CpuKernels, PostOperationsAreFusedCompletely) {
  host::Operation op = convolution();
  op.inputs.push_back(tensor({64}));
  op.inputs.push_back(op.outputs[0]);
  op.post_ops = {{RT_POST_BIAS, 0, 2},
                 {RT_POST_RESIDUAL_ADD, 0, 3},
                 {RT_POST_ACTIVATION, RT_ACTIVATION_RELU, -1}};
  EXPECT_EQ(open({1, {}})->query(op).post_ops_fused, 3u);
}

}  // namespace
}  // namespace tests::cpu
