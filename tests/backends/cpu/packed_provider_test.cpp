// Convolutions and products with packed weights through the plugin: layouts, copies, and
// post-operations compared with those of the canonical layouts.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>

#include "plugins/host/error.h"
#include "tests/backends/cpu/support.h"

namespace tests::cpu {
namespace {

// The candidate with packed weights, if this processor has one.
std::optional<rt_candidate> packed(host::Device& device, const host::Operation& op) {
  for (const rt_candidate& c : device.query(any_layouts(op)).candidates) {
    if (std::string(c.implementation).starts_with("native:packed")) return c;
  }
  return std::nullopt;
}

host::Operation product(int64_t rows, int64_t depth, int64_t columns, bool transposed) {
  host::Operation op;
  op.name = RT_OP_MATMUL;
  op.inputs = {tensor({rows, depth}),
               transposed ? tensor({columns, depth}) : tensor({depth, columns})};
  op.outputs = {tensor({rows, columns})};
  op.attributes = {{RT_ATTR_TRANSPOSE_B, int64_t{transposed}}};
  return op;
}

// Adds a bias, a residual and a relu.
host::Operation with_post_ops(host::Operation op) {
  const rt_tensor_desc y = op.outputs[0];
  op.post_ops = {{RT_POST_BIAS, 0, 2},
                 {RT_POST_RESIDUAL_ADD, 0, 3},
                 {RT_POST_ACTIVATION, RT_ACTIVATION_RELU, -1}};
  op.inputs.push_back(tensor({y.dims[y.rank - 1]}));
  op.inputs.push_back(y);
  return op;
}

// The result with weights that a copy has packed.
Floats run_packed(host::Device& device, host::Operation op, const rt_candidate& candidate,
                  std::vector<Floats> inputs) {
  host::Operation copy;
  copy.name = RT_OP_COPY;
  copy.inputs = {op.inputs[1]};
  copy.outputs = {op.inputs[1]};
  copy.outputs[0].layout = candidate.input_layouts[1];
  host::Kernel kernel = device.create_kernel(copy);
  host::Memory memory = device.allocate(candidate.input_bytes[1]);
  const void* from[] = {inputs[1].data()};
  void* to[] = {memory.data()};
  const rt_launch launch{sizeof(rt_launch), 1, from, to, 1, 0, nullptr, nullptr};
  host::Stream stream = device.create_stream();
  kernel.launch(stream, launch);
  stream.synchronize();
  const auto* numbers = static_cast<const float*>(memory.data());
  inputs[1].assign(numbers, numbers + candidate.input_bytes[1] / sizeof(float));
  op.inputs[1].layout = candidate.input_layouts[1];
  op.algorithm = candidate.algorithm;
  return run(device, op, inputs);
}

TEST(CpuPacked, ResultsAreThoseOfTheCanonicalLayouts) {
  const auto device = open({2, {}});
  if (!packed(*device, convolution())) GTEST_SKIP() << "no matrix unit for bfloat16";
  for (const host::Operation& plain : {convolution(16, 64), convolution(6, 40),
                                       product(1, 90, 50, true), product(40, 64, 50, false)}) {
    for (const host::Operation& op : {plain, with_post_ops(plain)}) {
      const auto candidate = packed(*device, op);
      ASSERT_TRUE(candidate.has_value());
      const Floats expected = run(*device, op, ramps(op));
      const Floats found = run_packed(*device, op, *candidate, ramps(op));
      double difference = 0, norm = 0;
      for (size_t i = 0; i < expected.size(); ++i) {
        difference += std::pow(expected[i] - found[i], 2), norm += std::pow(expected[i], 2);
      }
      EXPECT_LT(std::sqrt(difference / norm), 1e-5);
    }
  }
}

TEST(CpuPacked, TheDeviceOptionSwitchesThemOff) {
  EXPECT_FALSE(packed(*open({2, {{"bf16x3", "false"}}}), convolution()).has_value());
}

TEST(CpuPacked, PackedWeightsAreNotUnpacked) {
  const auto device = open({1, {}});
  const auto candidate = packed(*device, convolution());
  if (!candidate) GTEST_SKIP() << "no matrix unit for bfloat16";
  host::Operation copy;
  copy.name = RT_OP_COPY;
  copy.inputs = copy.outputs = {convolution().inputs[1]};
  copy.inputs[0].layout = candidate->input_layouts[1];
  EXPECT_EQ(device->query(copy).level, RT_SUPPORT_REFUSED);
}

}  // namespace
}  // namespace tests::cpu
