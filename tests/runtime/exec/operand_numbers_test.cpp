// Checks what operands hold while candidates are measured, and which operands share memory.
#include "runtime/exec/operand_numbers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "rt/operations.h"
#include "runtime/exec/encode.h"
#include "runtime/exec/operand_buffers.h"
#include "tests/runtime/support/devices.h"

namespace runtime::exec {
namespace {

using plugins::host::make_tensor_desc;
using plugins::host::Operation;

Operation operation(const std::string& name, std::vector<rt_tensor_desc> inputs,
                    std::vector<rt_tensor_desc> outputs) {
  Operation op;
  op.name = name;
  op.inputs = std::move(inputs);
  op.outputs = std::move(outputs);
  return op;
}

void expect_range(const NumberRange& range, double low, double high) {
  EXPECT_EQ(range.low, low);
  EXPECT_EQ(range.high, high);
}

const rt_tensor_desc kLogits = make_tensor_desc(RT_FLOAT32, {8, 10}),
                     kLabels = make_tensor_desc(RT_INT32, {8}),
                     kWeight = make_tensor_desc(RT_FLOAT32, {8, 1}),
                     kOne = make_tensor_desc(RT_FLOAT32, {1});

TEST(RangeOf, LabelsAreClasses) {
  const Operation op =
      operation(RT_OP_CROSS_ENTROPY_BACKWARD, {kLogits, kLabels, kWeight, kOne}, {kLogits});
  expect_range(range_of(op, 0), -1, 1);
  expect_range(range_of(op, 1), 0, 10);
  EXPECT_GT(range_of(op, 2).low, 0) << "the weight of a sample";
}

TEST(RangeOf, TokensAreRowsOfTheTable) {
  const rt_tensor_desc table = make_tensor_desc(RT_FLOAT32, {1000, 10});
  expect_range(range_of(operation(RT_OP_EMBEDDING, {kLabels, table}, {kLogits}), 0), 0, 1000);
  expect_range(range_of(operation(RT_OP_EMBEDDING_BACKWARD, {kLabels, kLogits}, {table}), 0), 0,
               1000);
}

TEST(RangeOf, VariancesArePositiveAndStepsBeginWithOne) {
  const rt_tensor_desc all = make_tensor_desc(RT_FLOAT32, {100}),
                       step = make_tensor_desc(RT_INT64, {1});
  const Operation op =
      operation(RT_OP_ADAMW, {all, all, kOne, kOne, all, all, step}, {all, all, all});
  EXPECT_GT(range_of(op, 5).low, 0);
  expect_range(range_of(op, 6), 1, 1);
}

// Nobody says what such an operation does with an integer.
TEST(RangeOf, IntegersOfUnknownOperationsAreZero) {
  expect_range(range_of(operation("a.thing", {kLabels, kLogits}, {kLogits}), 0), 0, 0);
  expect_range(range_of(operation("a.thing", {kLabels, kLogits}, {kLogits}), 1), -1, 1);
}

// Elements of the type that the device has after they were filled in.
std::vector<double> filled(rt_dtype dtype, const NumberRange& range, uint64_t bytes) {
  const auto device = test::open_device("simulated", {{"max_delay_us", "0"}});
  OperandNumbers numbers;
  plugins::host::Stream stream = device->create_stream();
  const plugins::host::Memory memory = device->allocate(bytes);
  numbers.fill(stream, memory.data(), bytes, dtype, range);
  std::vector<std::byte> elements(bytes);
  stream.copy(elements.data(), memory.data(), bytes);
  stream.synchronize();
  return decode(elements, dtype);
}

TEST(OperandNumbers, LieInTheirRangeAndDiffer) {
  const std::vector<double> floats = filled(RT_FLOAT32, {-1, 1}, 1 << 20);
  EXPECT_EQ(floats.size(), size_t{1} << 18);
  EXPECT_LT(*std::min_element(floats.begin(), floats.end()), -0.99);
  EXPECT_GT(*std::max_element(floats.begin(), floats.end()), 0.99);
  EXPECT_GT(std::set<double>(floats.begin(), floats.end()).size(), 60000u);
  EXPECT_EQ(std::count(floats.begin(), floats.end(), 0.0), 0);
  const std::vector<double> classes = filled(RT_INT32, {0, 10}, 4000);
  EXPECT_EQ(std::set<double>(classes.begin(), classes.end()),
            (std::set<double>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(filled(RT_INT64, {1, 1}, 16), (std::vector<double>{1, 1}));
  EXPECT_EQ(filled(RT_INT32, {0, 0}, 8), (std::vector<double>{0, 0}));
}

TEST(OperandNumbers, RepeatNoRowInTheNextOne) {
  const std::vector<double> floats = filled(RT_FLOAT32, {-1, 1}, 1 << 20);
  constexpr size_t kRow = 1 << 16;
  EXPECT_FALSE(std::equal(floats.begin(), floats.begin() + kRow, floats.begin() + kRow));
}

TEST(OperandNames, OptimizersWorkInPlace) {
  const rt_tensor_desc all = make_tensor_desc(RT_FLOAT32, {100});
  const OperandNames names(operation(RT_OP_SGD, {all, all, kOne, kOne, all}, {all, all}));
  EXPECT_EQ(names.inputs, (std::vector<std::string>{"param", "grad", "lr", "scale", "velocity"}));
  EXPECT_EQ(names.outputs, (std::vector<std::string>{"param", "velocity"}));
}

TEST(OperandNames, NoTwoOperandsShareANameOtherwise) {
  Operation concat = operation(RT_OP_CONCAT, {kLogits, kLogits}, {kLogits});
  EXPECT_EQ(OperandNames(concat).inputs, (std::vector<std::string>{"input 0", "input 1"}));
  Operation product = operation(RT_OP_MATMUL, {kLogits, kLogits, kOne}, {kLogits, kLogits});
  product.post_ops = {{RT_POST_BIAS, 0, 2}, {RT_POST_STORE, 0, -1}};
  EXPECT_EQ(OperandNames(product).inputs, (std::vector<std::string>{"a", "b", "input 2"}));
  const Operation merge =
      operation(RT_OP_BATCH_NORM_MERGE, {kLogits, kOne, kOne}, {kOne, kOne, kOne});
  EXPECT_EQ(OperandNames(merge).outputs,
            (std::vector<std::string>{"moments", "output 1", "output 2"}));
}

TEST(InLayoutsOf, TheForwardOperationFollowsItsGradient) {
  const auto image = [](uint64_t layout) {
    return make_tensor_desc(RT_FLOAT32, {2, 4, 4, 16}, layout);
  };
  const rt_tensor_desc channels = make_tensor_desc(RT_FLOAT32, {16});
  const Operation forward =
      operation(RT_OP_BATCH_NORM, {image(0), channels, channels, channels, channels},
                {image(0), channels, channels});
  const Operation backward = operation(RT_OP_BATCH_NORM_BACKWARD, {image(7), image(9), channels},
                                       {image(9), channels, channels});
  const Operation made = in_layouts_of(forward, backward);
  EXPECT_EQ(made.inputs[0].layout, 9u) << "x, which both have";
  EXPECT_EQ(made.outputs[0].layout, 7u) << "y as its gradient";
  EXPECT_EQ(made.inputs[1].layout, RT_LAYOUT_CANONICAL);
  // Weights need not have the layout of their gradient.
  const rt_tensor_desc weights = make_tensor_desc(RT_FLOAT32, {16, 3, 3, 16}, 5);
  const Operation pooled = in_layouts_of(
      operation(RT_OP_CONV2D_POOL2D, {image(0), weights, channels}, {image(0)}),
      operation(RT_OP_CONV2D_POOL2D_BACKWARD_WEIGHTS, {image(9), image(7)}, {weights, channels}));
  EXPECT_EQ(pooled.inputs[0].layout, 9u);
  EXPECT_EQ(pooled.inputs[1].layout, RT_LAYOUT_ANY);
  EXPECT_EQ(pooled.outputs[0].layout, 7u);
}

}  // namespace
}  // namespace runtime::exec
