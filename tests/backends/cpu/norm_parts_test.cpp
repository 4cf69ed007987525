// Split batch normalisation gives the same bits for every number of threads and any padding.
#include <gtest/gtest.h>

#include <limits>

#include "tests/backends/cpu/support.h"

namespace tests::cpu {
namespace {

constexpr int64_t kSamples = 24, kSize = 30, kChannels = 37;  // several chunks of pixels
constexpr int64_t kRow = kSize * kSize * kChannels;
constexpr int64_t kWidth = 2 * kChannels + 1;

host::Operation statistics(int64_t samples) {
  host::Operation op;
  op.name = RT_OP_BATCH_NORM_STATISTICS;
  op.inputs = {tensor({samples, kSize, kSize, kChannels}), tensor({samples})};
  op.outputs = {tensor({1, kWidth})};
  return op;
}

host::Operation backward_statistics(int64_t samples) {
  host::Operation op;
  op.name = RT_OP_BATCH_NORM_BACKWARD_STATISTICS;
  op.inputs.assign(2, tensor({samples, kSize, kSize, kChannels}));
  op.inputs.push_back(tensor({kWidth}));
  op.outputs = {tensor({1, 2 * kChannels})};
  op.attributes = {{RT_ATTR_EPSILON, 1e-5}};
  return op;
}

host::Operation merge(int64_t parts) {
  host::Operation op;
  op.name = RT_OP_BATCH_NORM_MERGE;
  op.inputs = {tensor({parts, kWidth}), tensor({kChannels}), tensor({kChannels})};
  op.outputs = {tensor({kWidth}), tensor({kChannels}), tensor({kChannels})};
  return op;
}

Floats joined(std::initializer_list<Floats> list) {
  Floats all;
  for (const Floats& f : list) all.insert(all.end(), f.begin(), f.end());
  return all;
}

TEST(CpuNormParts, ThreadsChangeNoBit) {
  const Floats x = ramp(kSamples * kRow), dy = ramp(kSamples * kRow, 3);
  const Floats weight(kSamples, 1.0f), moments(kWidth, 0.75f);
  const auto one = open({1, {}});
  const Floats part = run(*one, statistics(kSamples), {x, weight});
  const Floats sums = run(*one, backward_statistics(kSamples), {dy, x, moments});
  for (const int32_t threads : {2, 3, 5}) {
    const auto device = open({threads, {}});
    EXPECT_EQ(run(*device, statistics(kSamples), {x, weight}), part) << threads;
    EXPECT_EQ(run(*device, backward_statistics(kSamples), {dy, x, moments}), sums) << threads;
  }
}

// Gradients of a mean are equal at every pixel, so a long float32 sum of them makes the same
// rounding error at every addition.
TEST(CpuNormParts, SumsOfEqualGradientsKeepTheirDigits) {
  constexpr int64_t kPixels = 256, kFew = 4;
  host::Operation op;
  op.name = RT_OP_BATCH_NORM_BACKWARD_STATISTICS;
  op.inputs = {tensor({1, kPixels, 1, kFew}), tensor({1, kPixels, 1, kFew}),
               tensor({2 * kFew + 1})};
  op.outputs = {tensor({1, 2 * kFew})};
  op.attributes = {{RT_ATTR_EPSILON, 1e-5}};
  const Floats dy(kPixels * kFew, 0.7f), x(kPixels * kFew, 1.0f), moments(2 * kFew + 1, 0.0f);
  const Floats sums = run(*open(), op, {dy, x, moments});
  const double expected = kPixels * static_cast<double>(0.7f), rounding = expected / (1 << 24);
  for (int64_t c = 0; c < kFew; ++c) EXPECT_NEAR(sums[c], expected, 20 * rounding) << c;
}

// A sum over no rows is 0, whatever the moments are.
TEST(CpuNormParts, NoRowsHaveSumsOfZero) {
  Floats moments(kWidth, 0.75f);
  moments[kChannels] = -std::numeric_limits<float>::infinity();  // a variance without a root
  EXPECT_EQ(run(*open(), backward_statistics(0), {{}, {}, moments}), Floats(2 * kChannels, 0.0f));
}

TEST(CpuNormParts, PaddedRowsChangeNoBit) {
  const auto device = open({2, {}});
  const Floats x = ramp(3 * kRow), padding(kRow, std::numeric_limits<float>::quiet_NaN());
  const auto rows = [&](int64_t i) {
    return Floats(x.begin() + i * kRow, x.begin() + (i + 1) * kRow);
  };
  const Floats expected = run(*device, statistics(3), {x, {1, 1, 1}});
  EXPECT_EQ(expected.back(), 3 * kSize * kSize);
  EXPECT_EQ(run(*device, statistics(4), {joined({x, padding}), {1, 1, 1, 0}}), expected);
  EXPECT_EQ(run(*device, statistics(4), {joined({padding, x}), {0, 1, 1, 1}}), expected);
  EXPECT_EQ(run(*device, statistics(5),
                {joined({rows(0), padding, rows(1), padding, rows(2)}), {0.5, 0, 0.5, 0, 0.5}}),
            expected);
  const Floats dy = ramp(3 * kRow, 3), zeros(kRow, 0.0f), moments(kWidth, 0.75f);
  EXPECT_EQ(
      run(*device, backward_statistics(4), {joined({dy, zeros}), joined({x, rows(0)}), moments}),
      run(*device, backward_statistics(3), {dy, x, moments}));
}

TEST(CpuNormParts, PartsWithoutSamplesChangeNoBit) {
  const auto device = open();
  const Floats mean = ramp(kChannels), var(kChannels, 1.0f);
  Floats first = ramp(kWidth, 5), second = ramp(kWidth, 7), none = ramp(kWidth, 9);
  first.back() = 11, second.back() = 3, none.back() = 0;
  const auto all_outputs = [&](int64_t parts, const Floats& rows) {
    const host::Operation op = merge(parts);
    host::Kernel kernel = device->create_kernel(op);
    const Buffers buffers(*device, op, kernel, {rows, mean, var});
    host::Stream stream = device->create_stream();
    kernel.launch(stream, buffers.launch());
    stream.synchronize();
    return joined({buffers.output(0), buffers.output(1), buffers.output(2)});
  };
  const Floats expected = all_outputs(2, joined({first, second}));
  EXPECT_EQ(all_outputs(5, joined({none, first, none, second, none})), expected);
  EXPECT_NE(all_outputs(2, joined({second, second})), expected);
}

}  // namespace
}  // namespace tests::cpu
