// The passes over a library's result, run on the processor (HIP-CPU), give what the formulas give.
#include <gtest/gtest.h>

#include <random>

#include "backends/gpu/passes.h"
#include "backends/gpu/sixteen_bit.h"
#include "backends/reference/activation.h"
#include "plugins/host/operation.h"

namespace backends::gpu {

void check(hipError_t status, const char* what) { ASSERT_EQ(status, hipSuccess) << what; }

namespace {

namespace host = plugins::host;

struct List {
  const char* name;
  std::vector<host::PostOp> posts;  // operands are added by the test
};

const std::vector<List>& lists() {
  constexpr int32_t kRelu = RT_ACTIVATION_RELU, kGelu = RT_ACTIVATION_GELU;
  static const std::vector<List> all = {
      {"bias", {{RT_POST_BIAS}}},
      {"residual", {{RT_POST_RESIDUAL_ADD}}},
      {"bias_residual", {{RT_POST_BIAS}, {RT_POST_RESIDUAL_ADD}}},
      {"relu", {{RT_POST_ACTIVATION, kRelu}}},
      {"gelu", {{RT_POST_ACTIVATION, kGelu}}},
      {"bias_gelu", {{RT_POST_BIAS}, {RT_POST_ACTIVATION, kGelu}}},
      {"bias_gelu_tanh", {{RT_POST_BIAS}, {RT_POST_ACTIVATION, RT_ACTIVATION_GELU_TANH}}},
      {"sigmoid", {{RT_POST_ACTIVATION, RT_ACTIVATION_SIGMOID}}},
      {"gelu_backward", {{RT_POST_ACTIVATION_BACKWARD, kGelu}}},
      {"gelu_tanh_backward", {{RT_POST_ACTIVATION_BACKWARD, RT_ACTIVATION_GELU_TANH}}},
      {"tanh_backward", {{RT_POST_ACTIVATION_BACKWARD, RT_ACTIVATION_TANH}}},
      {"residual_relu_backward", {{RT_POST_RESIDUAL_ADD}, {RT_POST_ACTIVATION_BACKWARD, kRelu}}},
      {"store_gelu", {{RT_POST_STORE}, {RT_POST_ACTIVATION, kGelu}}},
      {"bias_store_relu_residual",
       {{RT_POST_BIAS}, {RT_POST_STORE}, {RT_POST_ACTIVATION, kRelu}, {RT_POST_RESIDUAL_ADD}}},
  };
  return all;
}

template <typename T>
constexpr rt_dtype kType = RT_FLOAT32;
template <>
constexpr rt_dtype kType<double> = RT_FLOAT64;
template <>
constexpr rt_dtype kType<Float16> = RT_FLOAT16;
template <>
constexpr rt_dtype kType<BFloat16> = RT_BFLOAT16;

bool has_operand(const host::PostOp& post) {
  return post.kind != RT_POST_ACTIVATION && post.kind != RT_POST_STORE;
}

// A product of which only the result and the post-operations matter here.
template <typename T>
host::Operation product(const List& list, int64_t rows, int64_t columns) {
  host::Operation op;
  op.name = RT_OP_MATMUL;
  op.inputs = {host::make_tensor_desc(kType<T>, {rows, 1}),
               host::make_tensor_desc(kType<T>, {1, columns})};
  op.outputs = {host::make_tensor_desc(kType<T>, {rows, columns})};
  for (host::PostOp post : list.posts) {
    post.operand = has_operand(post) ? static_cast<int32_t>(op.inputs.size()) : -1;
    if (post.kind == RT_POST_STORE) op.outputs.push_back(op.outputs[0]);
    if (post.kind == RT_POST_BIAS) {
      op.inputs.push_back(host::make_tensor_desc(kType<T>, {columns}));
    } else if (has_operand(post)) {
      op.inputs.push_back(op.outputs[0]);
    }
    op.post_ops.push_back(post);
  }
  return op;
}

double apply(const host::PostOp& post, double y, double operand) {
  if (post.kind == RT_POST_BIAS || post.kind == RT_POST_RESIDUAL_ADD) return y + operand;
  reference::with_differentiable(post.function, [&](auto function) {
    y = post.kind == RT_POST_ACTIVATION ? function.value(y) : function.backward(y, operand);
  });
  return y;
}

// Operands, 16-byte aligned, from element `skipped` on.
template <typename T>
struct Operand {
  std::vector<T> data;
  size_t skipped;
  Operand(int64_t count, size_t skip, std::mt19937& random)
      : data(static_cast<size_t>(count) + skip), skipped(skip) {
    std::uniform_real_distribution<float> uniform(-2, 2);
    for (T& x : data) x = static_cast<T>(uniform(random));
  }
  T* begin() { return data.data() + skipped; }
};

// Compares the pass for all post-operations from `first` on with the formulas. With `skipped` > 0
// no operand is aligned.
template <typename T>
void compare(const List& list, uint32_t first, int64_t rows, int64_t columns, size_t skipped) {
  const host::Operation op = product<T>(list, rows, columns);
  const host::OperationView view(op);
  const Operation described(view.get());
  std::mt19937 random(11);
  std::vector<Operand<T>> inputs, outputs;
  for (const auto& t : op.inputs) inputs.emplace_back(rt::sdk::element_count(t), skipped, random);
  for (const auto& t : op.outputs) outputs.emplace_back(rt::sdk::element_count(t), skipped, random);
  std::vector<const void*> from;
  std::vector<void*> to;
  for (auto& input : inputs) from.push_back(input.begin());
  for (auto& output : outputs) to.push_back(output.begin());
  const std::vector<T> before = outputs[0].data;
  const Pass pass = post_pass(described, first);
  ASSERT_TRUE(pass);
  pass({from.data(), to.data(), nullptr, nullptr, nullptr});
  ASSERT_EQ(hipDeviceSynchronize(), hipSuccess);

  const double tolerance = sizeof(T) == 8 ? 1e-13 : sizeof(T) == 4 ? 4e-6 : 0x1p-7;
  for (int64_t i = 0; i < rows * columns; ++i) {
    double y = static_cast<double>(before[static_cast<size_t>(i) + skipped]);
    for (size_t p = first; p < op.post_ops.size(); ++p) {
      const host::PostOp& post = op.post_ops[p];
      if (post.kind == RT_POST_STORE) {
        ASSERT_NEAR(static_cast<double>(outputs.back().begin()[i]), y, tolerance * 4) << i;
        continue;
      }
      const int64_t at = post.kind == RT_POST_BIAS ? i % columns : i;
      y = apply(post, y,
                has_operand(post)
                    ? static_cast<double>(inputs[static_cast<size_t>(post.operand)].begin()[at])
                    : 0);
    }
    ASSERT_NEAR(static_cast<double>(outputs[0].begin()[i]), y, tolerance * 8) << i;
  }
}

class GpuPasses : public testing::TestWithParam<List> {};

// Columns that are a multiple of every vector and that are none, a tail behind the last vector, and
// more elements than the threads of a block load at once.
TEST_P(GpuPasses, ApplyTheFormulas) {
  const auto compare_all = [&]<typename T>() {
    compare<T>(GetParam(), 0, 7, 24, 0);
    compare<T>(GetParam(), 0, 7, 25, 0);
    compare<T>(GetParam(), 0, 5, 3, 0);
    compare<T>(GetParam(), 0, 90, 104, 0);
    compare<T>(GetParam(), 0, 5, 24, 1);
  };
  compare_all.operator()<float>();
  compare_all.operator()<double>();
  compare_all.operator()<Float16>();
  compare_all.operator()<BFloat16>();
}

// The library has fused the first post-operation.
TEST_P(GpuPasses, ApplyTheRest) {
  if (GetParam().posts.size() < 2) return;
  compare<float>(GetParam(), 1, 7, 24, 0);
  compare<BFloat16>(GetParam(), 1, 7, 25, 0);
}

INSTANTIATE_TEST_SUITE_P(Lists, GpuPasses, testing::ValuesIn(lists()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace backends::gpu
