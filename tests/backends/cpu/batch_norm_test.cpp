// Batch normalisation in the batch-blocked layout gives what it gives in the canonical one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/backends/cpu/support.h"

namespace tests::cpu {
namespace {

constexpr int64_t kBlockedSamples = 48, kBlockedSize = 5, kBlockedChannels = 19, kBlock = 16;
constexpr int64_t kImage = kBlockedSize * kBlockedSize * kBlockedChannels;

uint64_t batch_blocked(host::Device& device) {
  for (const rt_candidate& c : device.query(any_layouts(convolution())).candidates) {
    if (std::string(c.implementation).rfind("batch_blocked", 0) == 0) return c.output_layouts[0];
  }
  return RT_LAYOUT_CANONICAL;
}

// The place of canonical element i of an image in the batch-blocked layout.
size_t place(size_t i) {
  const auto at = static_cast<int64_t>(i), sample = at / kImage;
  return static_cast<size_t>((sample / kBlock * kImage + at % kImage) * kBlock + sample % kBlock);
}

Floats blocked(const Floats& x) {
  Floats y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[place(i)] = x[i];
  return y;
}

Floats canonical(const Floats& y) {
  Floats x(y.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = y[place(i)];
  return x;
}

rt_tensor_desc image(uint64_t layout) {
  rt_tensor_desc t = tensor({kBlockedSamples, kBlockedSize, kBlockedSize, kBlockedChannels});
  t.layout = layout;
  return t;
}

// With a residual that is added and a ReLU.
host::Operation forward(uint64_t layout) {
  host::Operation op;
  op.name = RT_OP_BATCH_NORM;
  op.inputs = {image(layout)};
  op.inputs.resize(5, tensor({kBlockedChannels}));
  op.inputs.push_back(image(layout));
  op.outputs = {image(layout), tensor({kBlockedChannels}), tensor({kBlockedChannels})};
  op.attributes = {{RT_ATTR_EPSILON, 1e-5}, {RT_ATTR_MOMENTUM, 0.1}};
  op.post_ops = {{RT_POST_RESIDUAL_ADD, 0, 5}, {RT_POST_ACTIVATION, RT_ACTIVATION_RELU, -1}};
  return op;
}

host::Operation backward(uint64_t layout) {
  host::Operation op;
  op.name = RT_OP_BATCH_NORM_BACKWARD;
  op.inputs = {image(layout), image(layout), tensor({kBlockedChannels})};
  op.outputs = {image(layout), tensor({kBlockedChannels}), tensor({kBlockedChannels})};
  op.attributes = {{RT_ATTR_EPSILON, 1e-5}};
  return op;
}

// All results of both directions, images canonical.
std::vector<Floats> results(host::Device& device, uint64_t layout) {
  const bool is_blocked = layout != RT_LAYOUT_CANONICAL;
  const auto in = [&](const Floats& x) { return is_blocked ? blocked(x) : x; };
  const auto out = [&](const Floats& x) { return is_blocked ? canonical(x) : x; };
  Floats x = ramp(kBlockedSamples * kImage, 2);
  for (float& v : x) v = 100.0f + v;  // far from zero, so that a careless variance is wrong
  const Floats dy = ramp(kBlockedSamples * kImage, 3), residual = ramp(kBlockedSamples * kImage, 4);
  const Floats gamma = ramp(kBlockedChannels, 5), beta = ramp(kBlockedChannels, 6),
               mean(kBlockedChannels, 0.5f), variance(kBlockedChannels, 2.0f);

  const host::Operation first = forward(layout);
  host::Kernel kernel = device.create_kernel(first);
  const Buffers buffers(device, first, kernel, {in(x), gamma, beta, mean, variance, in(residual)});
  host::Operation second = backward(layout);
  second.forward = kernel.get();
  host::Kernel gradient = device.create_kernel(second);
  const Buffers gradients(device, second, gradient, {in(dy), in(x), gamma});
  rt_launch launch = gradients.launch();
  launch.saved = buffers.launch().saved;

  host::Stream stream = device.create_stream();
  kernel.launch(stream, buffers.launch());
  gradient.launch(stream, launch);
  stream.synchronize();
  return {out(buffers.output(0)),   buffers.output(1),   buffers.output(2),
          out(gradients.output(0)), gradients.output(1), gradients.output(2)};
}

TEST(CpuBatchNorm, IsTheSameInTheBatchBlockedLayout) {
  for (const int32_t threads : {1, 3}) {
    const auto device = open({threads, {}});
    const uint64_t layout = batch_blocked(*device);
    ASSERT_NE(layout, RT_LAYOUT_CANONICAL);
    const auto expected = results(*device, RT_LAYOUT_CANONICAL), found = results(*device, layout);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_THAT(found[i], testing::Pointwise(testing::FloatNear(2e-5f), expected[i]))
          << "result " << i << ", " << threads << " threads";
    }
  }
}

// A lane without a sample may hold anything, which must not be summed.
TEST(CpuBatchNorm, IsNotOfferedForLanesWithoutSamples) {
  const auto device = open({1, {}});
  host::Operation op = forward(batch_blocked(*device));
  for (const size_t i : {size_t{0}, size_t{5}}) op.inputs[i].dims[0] = kBlockedSamples - 1;
  op.outputs[0].dims[0] = kBlockedSamples - 1;
  const host::Support support = device->query(op);
  EXPECT_TRUE(support.candidates.empty());
  EXPECT_THAT(support.reason, testing::HasSubstr("has a layout that this operation does not take"));
}

}  // namespace
}  // namespace tests::cpu
