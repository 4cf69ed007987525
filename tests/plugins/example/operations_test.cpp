// The operations of the example plugin against values computed by hand.
#include "rt/operations.h"

#include <cmath>

#include "plugins/host/device.h"
#include "tests/plugins/host/support.h"

namespace plugins::host::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

struct Operand {
  std::vector<int64_t> dims;
  std::vector<float> values;
  std::vector<int32_t> labels = {};  // if not empty, the operand is these int32 numbers
};

// Runs an operation with one output.
std::vector<float> compute(const char* name, const std::vector<Operand>& operands,
                           std::vector<int64_t> dims, std::vector<Attribute> attributes = {}) {
  const auto device = Device::open(Plugin::load(fixture("example"), {}), 0);
  Stream stream = device->create_stream();
  Operation operation{.name = name,
                      .inputs = {},
                      .outputs = {make_tensor_desc(RT_FLOAT32, dims)},
                      .attributes = std::move(attributes),
                      .post_ops = {},
                      .label = {}};
  std::vector<Memory> memory;
  std::vector<const void*> inputs;
  for (const Operand& operand : operands) {
    const bool integers = !operand.labels.empty();
    operation.inputs.push_back(make_tensor_desc(integers ? RT_INT32 : RT_FLOAT32, operand.dims));
    const std::size_t bytes = 4 * (integers ? operand.labels.size() : operand.values.size());
    memory.push_back(device->allocate(bytes));
    stream.copy(memory.back().data(),
                integers ? static_cast<const void*>(operand.labels.data()) : operand.values.data(),
                bytes);
    inputs.push_back(memory.back().data());
  }
  Kernel kernel = device->create_kernel(operation);
  std::size_t count = 1;
  for (const int64_t dim : dims) count *= static_cast<std::size_t>(dim);
  Memory output = device->allocate(4 * count);
  Memory workspace;
  if (kernel.info().workspace_bytes > 0)
    workspace = device->allocate(kernel.info().workspace_bytes);
  void* outputs[] = {output.data()};
  kernel.launch(stream, {sizeof(rt_launch), static_cast<uint32_t>(inputs.size()), inputs.data(),
                         outputs, 1, 0, workspace.data(), nullptr});
  std::vector<float> result(count);
  stream.copy(result.data(), output.data(), 4 * count);
  stream.synchronize();
  return result;
}

Attribute function(int64_t value) { return {RT_ATTR_FUNCTION, value}; }

const Operand kA = {{2, 3}, {1, 2, 3, 4, 5, 6}};
const Operand kB = {{3, 2}, {1, 0, 2, 1, 0, 3}};
const std::vector<float> kProduct = {5, 11, 14, 23};

TEST(Example, MultipliesMatricesWithTransposes) {
  EXPECT_EQ(compute(RT_OP_MATMUL, {kA, kB}, {2, 2}), kProduct);
  const Operand a_transposed = {{3, 2}, {1, 4, 2, 5, 3, 6}},
                b_transposed = {{2, 3}, {1, 2, 0, 0, 1, 3}};
  const Attribute ta{RT_ATTR_TRANSPOSE_A, int64_t{1}}, tb{RT_ATTR_TRANSPOSE_B, int64_t{1}};
  EXPECT_EQ(compute(RT_OP_MATMUL, {a_transposed, kB}, {2, 2}, {ta}), kProduct);
  EXPECT_EQ(compute(RT_OP_MATMUL, {kA, b_transposed}, {2, 2}, {tb}), kProduct);
  EXPECT_EQ(compute(RT_OP_MATMUL, {a_transposed, b_transposed}, {2, 2}, {ta, tb}), kProduct);
}

TEST(Example, MultipliesBatches) {
  const Operand a = {{2, 1, 2}, {1, 2, 3, 4}}, shared = {{2, 1}, {1, 10}},
                own = {{2, 2, 1}, {1, 10, 2, 20}};
  EXPECT_THAT(compute(RT_OP_MATMUL, {a, shared}, {2, 1, 1}), ElementsAre(21, 43));
  EXPECT_THAT(compute(RT_OP_MATMUL, {a, own}, {2, 1, 1}), ElementsAre(21, 86));
}

TEST(Example, BroadcastsBothOperands) {
  const Operand column = {{2, 1}, {10, 20}}, row = {{3}, {1, 2, 4}};
  EXPECT_THAT(compute(RT_OP_ADD, {column, row}, {2, 3}), ElementsAre(11, 12, 14, 21, 22, 24));
  EXPECT_THAT(compute(RT_OP_SUBTRACT, {column, row}, {2, 3}), ElementsAre(9, 8, 6, 19, 18, 16));
  EXPECT_THAT(compute(RT_OP_MULTIPLY, {column, row}, {2, 3}), ElementsAre(10, 20, 40, 20, 40, 80));
  EXPECT_THAT(compute(RT_OP_DIVIDE, {column, row}, {2, 3}), ElementsAre(10, 5, 2.5, 20, 10, 5));
}

TEST(Example, ScalesFillsAndCopies) {
  EXPECT_THAT(
      compute(RT_OP_SCALE, {{{2}, {1, 2}}}, {2}, {{RT_ATTR_ALPHA, 3.0}, {RT_ATTR_BETA, -1.0}}),
      ElementsAre(2, 5));
  EXPECT_THAT(compute(RT_OP_FILL, {}, {3}, {{RT_ATTR_VALUE, 2.5}}), ElementsAre(2.5, 2.5, 2.5));
  EXPECT_EQ(compute(RT_OP_COPY, {kA}, {2, 3}), kA.values);
}

TEST(Example, ReducesAnyAxes) {
  const auto axes = [](int64_t mask) { return Attribute{RT_ATTR_AXES, mask}; };
  EXPECT_THAT(compute(RT_OP_REDUCE, {kA}, {3}, {function(RT_REDUCE_SUM), axes(1)}),
              ElementsAre(5, 7, 9));
  EXPECT_THAT(compute(RT_OP_REDUCE, {kA}, {2, 1}, {function(RT_REDUCE_MEAN), axes(2)}),
              ElementsAre(2, 5));
  EXPECT_THAT(compute(RT_OP_REDUCE, {kA}, {}, {function(RT_REDUCE_MAX), axes(3)}), ElementsAre(6));
  EXPECT_EQ(compute(RT_OP_REDUCE, {kA}, {2, 3}, {function(RT_REDUCE_SUM), axes(0)}), kA.values);
}

// Compares every derivative with a central difference of its function.
TEST(Example, ActivationsHaveTheirDerivatives) {
  const std::vector<float> x = {-2.0f, -0.5f, 0.3f, 1.5f};
  const float h = 1e-2f;
  const auto shifted = [&](float by) {
    std::vector<float> moved = x;
    for (float& value : moved) value += by;
    return Operand{{4}, moved};
  };
  for (int64_t f = RT_ACTIVATION_RELU; f <= RT_ACTIVATION_SIGMOID; ++f) {
    const bool saves_x = f == RT_ACTIVATION_GELU || f == RT_ACTIVATION_GELU_TANH;
    const std::vector<float> y = compute(RT_OP_ACTIVATION, {{{4}, x}}, {4}, {function(f)});
    const std::vector<float> gradient =
        compute(RT_OP_ACTIVATION_BACKWARD, {{{4}, {1, 1, 1, 1}}, {{4}, saves_x ? x : y}}, {4},
                {function(f)});
    const auto above = compute(RT_OP_ACTIVATION, {shifted(h)}, {4}, {function(f)});
    const auto below = compute(RT_OP_ACTIVATION, {shifted(-h)}, {4}, {function(f)});
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(gradient[i], (above[i] - below[i]) / (2 * h), 1e-3)
          << "function " << f << " at " << x[i];
    }
  }
}

TEST(Example, CrossEntropyIgnoresPaddingAndHasItsGradient) {
  const Operand logits = {{3, 2}, {0, 0, 100, 0, 7, 9}}, labels = {{3}, {}, {1, 0, 0}};
  const Operand weights = {{3}, {0.5, 0.5, 0}}, one = {{1}, {1}};
  const auto loss = compute(RT_OP_CROSS_ENTROPY, {logits, labels, weights}, {1});
  EXPECT_NEAR(loss[0], 0.5 * std::log(2.0), 1e-6);
  const auto gradient =
      compute(RT_OP_CROSS_ENTROPY_BACKWARD, {logits, labels, weights, one}, {3, 2});
  EXPECT_THAT(gradient, Pointwise(FloatNear(1e-6f), {0.25f, -0.25f, 0.0f, 0.0f, 0.0f, 0.0f}));
}

TEST(Example, CountsTheFirstLargest) {
  const Operand logits = {{4, 2}, {1, 1, 1, 2, 3, 1, 0, 1}}, labels = {{4}, {}, {0, 1, 1, 1}};
  EXPECT_THAT(compute(RT_OP_CORRECT_COUNT, {logits, labels, {{4}, {1, 1, 1, 0}}}, {1}),
              ElementsAre(2));
}

TEST(Example, SgdDecaysAndScales) {
  // 2 - 0.5 (0.1 * 10 + 0.2 * 2) = 1.3
  const auto param = compute(RT_OP_SGD, {{{1}, {2}}, {{1}, {10}}, {{1}, {0.5}}, {{1}, {0.1f}}}, {1},
                             {{RT_ATTR_WEIGHT_DECAY, 0.2}});
  EXPECT_NEAR(param[0], 1.3f, 1e-6);
  EXPECT_THAT(error_of([] {
                compute(RT_OP_SGD, {{{1}, {2}}, {{1}, {10}}, {{1}, {1}}, {{1}, {1}}}, {1},
                        {{RT_ATTR_MOMENTUM, 0.9}});
              }).what(),
              HasSubstr("momentum is not supported"));
}

TEST(Example, RefusesWhatIsNotMandatoryAndWrongShapes) {
  EXPECT_EQ(error_of([] { compute(RT_OP_SOFTMAX, {kA}, {2, 3}); }).code(), RT_ERROR_UNSUPPORTED);
  EXPECT_EQ(error_of([] {
              compute(RT_OP_MATMUL, {kA, kA}, {2, 3});
            }).code(),
            RT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(error_of([] {
              compute(RT_OP_ADD, {kA, kB}, {2, 3});
            }).code(),
            RT_ERROR_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace plugins::host::testing
