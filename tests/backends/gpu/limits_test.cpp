// The operations that have a limit: the largest operands are taken, those with one element more are
// refused, with the limit and what to do. A query needs no memory for the operands.
#include <gmock/gmock.h>

#include <cstdint>
#include <functional>

#include "plugins/host/device.h"
#include "rt/operations.h"

namespace {

namespace host = plugins::host;

// Blocks of 256 threads in the first dimension of a grid: HIP counts the threads in 32 bits, CUDA
// the blocks in 31.
#if defined(GRID_OF_HIP)
constexpr int64_t kGrid = UINT32_MAX / 256;
const std::map<std::string, std::string> kOptions;
#else
constexpr int64_t kGrid = INT32_MAX;
// The vendor's libraries have limits of their own, behind which our kernels serve.
const std::map<std::string, std::string> kOptions = {{"vendor_libraries", "false"}};
#endif

struct Limit {
  const char* name;
  std::function<host::Operation(int64_t size)> make;
  int64_t most;
  const char* what;
};

void PrintTo(const Limit& limit, std::ostream* to) { *to << limit.name; }

using Dims = std::vector<int64_t>;

host::Operation operation(const char* name, const std::vector<Dims>& inputs,
                          const std::vector<Dims>& outputs) {
  host::Operation op;
  op.name = name;
  for (const Dims& dims : inputs) op.inputs.push_back(host::make_tensor_desc(RT_FLOAT32, dims));
  for (const Dims& dims : outputs) op.outputs.push_back(host::make_tensor_desc(RT_FLOAT32, dims));
  return op;
}

host::Operation classification(const char* name, int64_t width) {
  host::Operation op = operation(name, {{2, width}, {2}, {2}}, {{1}});
  op.inputs[1].dtype = RT_INT32;
  return op;
}

host::Operation attention(int64_t positions) {
  host::Operation op = operation(RT_OP_ATTENTION, {{1, positions, 3}}, {{1, positions, 1}});
  op.attributes = {{RT_ATTR_HEADS, int64_t{1}}};
  return op;
}

host::Operation pooling(int64_t pixels) {
  host::Operation op = operation(RT_OP_MAX_POOL2D, {{1, pixels, 1, 1}}, {{1, pixels, 1, 1}});
  op.attributes = {{RT_ATTR_KERNEL_H, int64_t{1}}, {RT_ATTR_KERNEL_W, int64_t{1}}};
  return op;
}

host::Operation reduction(int64_t columns) {
  host::Operation op = operation(RT_OP_REDUCE, {{2, columns}}, {{1, columns}});
  op.attributes = {{RT_ATTR_AXES, int64_t{1}}, {RT_ATTR_FUNCTION, int64_t{RT_REDUCE_SUM}}};
  return op;
}

host::Operation normalisation(int64_t columns) {
  const Dims vector = {columns};
  host::Operation op = operation(RT_OP_BATCH_NORM, {{2, columns}, vector, vector, vector, vector},
                                 {{2, columns}, vector, vector});
  op.attributes = {{RT_ATTR_EPSILON, 1e-5}};
  return op;
}

host::Operation table_gradient(int64_t indices) {
  host::Operation op = operation(RT_OP_EMBEDDING_BACKWARD, {{indices}, {indices, 1}}, {{2, 1}});
  op.inputs[0].dtype = RT_INT32;
  return op;
}

// x [images, height, 1, 1] and weights [1, taps, 1, 1]; x is padded by taps - 1 rows.
host::Operation convolution(int64_t images, int64_t height, int64_t taps) {
  host::Operation op =
      operation(RT_OP_CONV2D, {{images, height, 1, 1}, {1, taps, 1, 1}}, {{images, height, 1, 1}});
  if (taps > 1) op.attributes = {{RT_ATTR_PAD_TOP, taps - 1}};
  return op;
}

const std::vector<Limit>& limits() {
  static const std::vector<Limit> all = {
      {"matmul_rows",
       [](int64_t size) {
         return operation(RT_OP_MATMUL, {{size, 1}, {1, 1}}, {{size, 1}});
       },
       kGrid * 128, "rows of a result"},
      {"matmul_columns",
       [](int64_t size) {
         return operation(RT_OP_MATMUL, {{1, 1}, {1, size}}, {{1, size}});
       },
       int64_t{65535} * 64, "columns of a result"},
      {"conv2d_images", [](int64_t size) { return convolution(size, 1, 1); }, INT32_MAX, "images"},
      {"conv2d_rows", [](int64_t size) { return convolution(1, size, 1); }, INT32_MAX,
       "padded rows"},
      {"conv2d_padding", [](int64_t size) { return convolution(1, size, 2); }, INT32_MAX - 1,
       "padded rows"},
      {"softmax",
       [](int64_t size) {
         return operation(RT_OP_SOFTMAX, {{2, size}}, {{2, size}});
       },
       INT32_MAX - (1 << 20), "elements of a row"},
      {"cross_entropy", [](int64_t size) { return classification(RT_OP_CROSS_ENTROPY, size); },
       INT32_MAX - (1 << 20), "elements of a row"},
      {"correct_count", [](int64_t size) { return classification(RT_OP_CORRECT_COUNT, size); },
       INT32_MAX - (1 << 20), "elements of a row"},
      {"attention", attention, int64_t{1} << 30, "numbers of a head"},
      {"max_pool2d", pooling, INT32_MAX, "pixels of an image"},
      {"reduce", reduction, kGrid * 8, "columns"},
      {"batch_norm", normalisation, kGrid * 8, "columns"},
      {"batch_norm_statistics",
       [](int64_t size) {
         return operation(RT_OP_BATCH_NORM_STATISTICS, {{size, 1}, {size}}, {{1, 3}});
       },
       INT32_MAX, "samples"},
      {"embedding_backward", table_gradient, INT32_MAX, "indices"},
  };
  return all;
}

class Limits : public testing::TestWithParam<Limit> {};

TEST_P(Limits, AreTakenAndWhatIsAboveIsRefused) {
  const auto device = host::Device::open(host::Plugin::load(PLUGIN, {}), 0, {0, kOptions});
  const Limit& limit = GetParam();
  const host::Support taken = device->query(limit.make(limit.most));
  EXPECT_NE(taken.level, RT_SUPPORT_REFUSED) << taken.reason;
  const host::Support refused = device->query(limit.make(limit.most + 1));
  EXPECT_EQ(refused.level, RT_SUPPORT_REFUSED);
  EXPECT_THAT(refused.reason, testing::HasSubstr(limit.what));
  EXPECT_THAT(refused.reason, testing::HasSubstr("and the kernel takes at most"));
  EXPECT_THAT(refused.reason, testing::HasSubstr("use smaller operands"));
}

INSTANTIATE_TEST_SUITE_P(Operations, Limits, testing::ValuesIn(limits()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
