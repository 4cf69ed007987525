// Tests the plugin `reference` through plugins/host: device, query, plans, launches, and the C
// interface itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "backends/reference/answer.h"
#include "plugins/host/device.h"
#include "plugins/host/error.h"
#include "rt/sdk/operation.h"
#include "tests/backends/reference/harness.h"

namespace backends::reference::testing {
namespace {

using plugins::host::Device;
using plugins::host::Error;
using plugins::host::Memory;
using plugins::host::Operation;
using plugins::host::Plugin;
using plugins::host::Stream;
using plugins::host::Support;
using HostKernel = plugins::host::Kernel;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PluginTest : public ::testing::Test {
 protected:
  std::shared_ptr<Plugin> plugin_ = Plugin::load(REFERENCE_PLUGIN, {});
  std::shared_ptr<Device> device_ = Device::open(plugin_, 0);
};

template <typename Body>
Error error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "expected an error";
  return Error(RT_OK, "");
}

rt_launch make_launch(const std::vector<const void*>& inputs, const std::vector<void*>& outputs) {
  rt_launch launch{};
  launch.size = sizeof(launch);
  launch.inputs = inputs.data();
  launch.outputs = outputs.data();
  launch.input_count = static_cast<uint32_t>(inputs.size());
  launch.output_count = static_cast<uint32_t>(outputs.size());
  return launch;
}

TEST_F(PluginTest, DescribesItsDevice) {
  EXPECT_EQ(plugin_->name(), "reference");
  EXPECT_EQ(device_->id(), "reference:0");
  EXPECT_TRUE(device_->is_inline());
  EXPECT_TRUE(device_->host_memory());
  EXPECT_NE(device_->properties().compute_dtypes & RT_DTYPE_BIT(RT_FLOAT64), 0u);
  EXPECT_NE(device_->properties().compute_dtypes & RT_DTYPE_BIT(RT_BFLOAT16), 0u);
  EXPECT_THAT(error_of([&] { Device::open(plugin_, 1); }).what(), HasSubstr("reference:0"));
}

TEST_F(PluginTest, CountsItsMemory) {
  const uint64_t before = device_->memory_info().allocated_bytes;
  {
    const Memory memory = device_->allocate(1000);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % device_->properties().alignment, 0u);
    EXPECT_EQ(device_->memory_info().allocated_bytes, before + 1000);
  }
  EXPECT_EQ(device_->memory_info().allocated_bytes, before);
  const Error error = error_of([&] { device_->allocate(uint64_t{1} << 60); });
  EXPECT_EQ(error.code(), RT_ERROR_OUT_OF_MEMORY);
  EXPECT_THAT(error.what(), HasSubstr("1152921504606846976 bytes"));
}

TEST_F(PluginTest, RunsAnOperationInTheCallingThread) {
  Operation op = operation(RT_OP_ADD, {{2}, {2}}, {{2}});
  HostKernel kernel = device_->create_kernel(op);
  EXPECT_EQ(kernel.info().in_place[0], 3u);
  EXPECT_NE(kernel.info().flags & RT_PLAN_DETERMINISTIC, 0u);
  Stream stream = device_->create_stream();
  Array a = {1, 2}, b = {10, 20}, c(2);
  kernel.launch(stream, make_launch({a.data(), b.data()}, {c.data()}));
  EXPECT_THAT(c, ElementsAre(11, 22));
}

TEST_F(PluginTest, AnswersAQueryWithOneCanonicalCandidate) {
  Operation op = operation(RT_OP_CONV2D, {{1, 5, 5, 2}, {3, 3, 3, 2}, {3}}, {{1, 3, 3, 3}});
  op.post_ops = {{RT_POST_BIAS, 0, 2}, {RT_POST_ACTIVATION, RT_ACTIVATION_RELU, -1}};
  op.inputs[0].layout = op.outputs[0].layout = RT_LAYOUT_ANY;
  const Support support = device_->query(op);
  EXPECT_EQ(support.level, RT_SUPPORT_NATIVE);
  EXPECT_EQ(support.post_ops_fused, 2u);
  EXPECT_TRUE(support.deterministic);
  ASSERT_EQ(support.candidates.size(), 1u);
  EXPECT_EQ(support.candidates[0].input_layouts[0], RT_LAYOUT_CANONICAL);
  EXPECT_EQ(support.candidates[0].input_bytes[0], 50 * sizeof(double));
  EXPECT_EQ(support.candidates[0].output_bytes[0], 27 * sizeof(double));
}

TEST_F(PluginTest, FusesNothingIntoOperationsThatTakeNoPostOperations) {
  Operation op = operation(RT_OP_SCALE, {{2}}, {{2}});
  op.post_ops = {{RT_POST_ACTIVATION, RT_ACTIVATION_RELU, -1}};
  const Support support = device_->query(op);
  EXPECT_EQ(support.level, RT_SUPPORT_NATIVE);
  EXPECT_EQ(support.post_ops_fused, 0u);
}

// matmul with a bias, a function of `activation` alone and a residual.
TEST_F(PluginTest, FusesWhatStandsBeforeAFunctionThatIsNoPostOperation) {
  Operation op = operation(RT_OP_MATMUL, {{2, 3}, {3, 5}, {5}, {2, 5}}, {{2, 5}});
  op.post_ops = {{RT_POST_BIAS, 0, 2},
                 {RT_POST_ACTIVATION, RT_ACTIVATION_EXP, -1},
                 {RT_POST_RESIDUAL_ADD, 0, 3}};
  const Support support = device_->query(op);
  EXPECT_EQ(support.level, RT_SUPPORT_NATIVE);
  EXPECT_EQ(support.post_ops_fused, 1u);
  EXPECT_EQ(support.candidates.size(), 1u);
  const Support backward = device_->query(
      operation(RT_OP_ACTIVATION_BACKWARD, {{2}, {2}}, {{2}}, {{RT_ATTR_FUNCTION, int64_t{6}}}));
  EXPECT_EQ(backward.level, RT_SUPPORT_REFUSED);
  EXPECT_THAT(backward.reason, HasSubstr("activation alone"));
}

TEST_F(PluginTest, RefusesATypeAsAnAnswerNotAnError) {
  const Support support =
      device_->query(operation(RT_OP_MATMUL, {{2, 3}, {3, 5}}, {{2, 5}}, {}, RT_INT8));
  EXPECT_EQ(support.level, RT_SUPPORT_REFUSED);
  EXPECT_EQ(support.reason_operand, 0);
  EXPECT_THAT(support.reason, HasSubstr("int8"));
}

TEST_F(PluginTest, BrokenShapesAreAnError) {
  const Error error = error_of([&] {
    device_->query(operation(RT_OP_MATMUL, {{2, 3}, {4, 5}}, {{2, 5}}));
  });
  EXPECT_EQ(error.code(), RT_ERROR_INVALID_ARGUMENT);
}

TEST_F(PluginTest, BackwardThatReadsSavedDataNeedsItsForward) {
  const Attributes window = {{RT_ATTR_KERNEL_H, int64_t{2}}, {RT_ATTR_KERNEL_W, int64_t{2}}};
  Operation backward = operation(RT_OP_MAX_POOL2D_BACKWARD, {{1, 3, 3, 1}}, {{1, 4, 4, 1}}, window);
  EXPECT_EQ(device_->query(backward).level, RT_SUPPORT_NATIVE) << "a query needs no forward";
  EXPECT_THAT(error_of([&] { device_->create_kernel(backward); }).what(),
              HasSubstr("give the forward plan"));
  const HostKernel other =
      device_->create_kernel(operation(RT_OP_MAX_POOL2D, {{2, 4, 4, 1}}, {{2, 3, 3, 1}}, window));
  backward.forward = other.get();
  EXPECT_THAT(error_of([&] { device_->create_kernel(backward); }).what(),
              HasSubstr("expects 72 saved bytes"));
  const HostKernel forward =
      device_->create_kernel(operation(RT_OP_MAX_POOL2D, {{1, 4, 4, 1}}, {{1, 3, 3, 1}}, window));
  backward.forward = forward.get();
  EXPECT_TRUE(device_->create_kernel(backward));
}

TEST_F(PluginTest, RefusesAnIncompleteLaunch) {
  HostKernel kernel = device_->create_kernel(operation(RT_OP_MATMUL, {{2, 3}, {3, 2}}, {{2, 2}}));
  Stream stream = device_->create_stream();
  Array a(6), b(6), c(4);
  EXPECT_GT(kernel.info().workspace_bytes, 0u);
  EXPECT_THAT(error_of([&] {
                kernel.launch(stream, make_launch({a.data(), b.data()}, {c.data()}));
              }).what(),
              HasSubstr("matmul: the workspace is NULL"));
  EXPECT_THAT(error_of([&] { kernel.launch(stream, make_launch({a.data()}, {c.data()})); }).what(),
              HasSubstr("1 inputs and 1 outputs, the plan has 2 and 1"));
}

TEST_F(PluginTest, RefusesAlgorithmsAndLayoutsThatItDidNotOffer) {
  Operation op = operation(RT_OP_COPY, {{2}}, {{2}});
  op.algorithm = 5;
  EXPECT_THAT(error_of([&] { device_->create_kernel(op); }).what(), HasSubstr("algorithm 5"));
  op.algorithm = 1;
  op.inputs[0].layout = RT_LAYOUT_ANY;
  EXPECT_THAT(error_of([&] { device_->create_kernel(op); }).what(),
              HasSubstr("a layout for every"));
}

}  // namespace
}  // namespace backends::reference::testing
