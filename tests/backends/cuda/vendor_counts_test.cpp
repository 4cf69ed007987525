// What the plugin `cuda` asks of cuBLASLt and cuDNN where operands have more elements than 31 bits
// count, with stand-ins for these libraries (tests/doubles). A query needs no memory for them.
#include <gmock/gmock.h>

#include <set>

#include "plugins/host/device.h"
#include "rt/operations.h"
#include "rt/sdk/foreign_layout.h"

namespace {

namespace host = plugins::host;

std::shared_ptr<host::Device> open_double() {
  return host::Device::open(host::Plugin::load(CUDA_VENDOR_DOUBLE, {}), 0, {0, {}});
}

rt_tensor_desc canonical(rt_dtype dtype, const std::vector<int64_t>& dims) {
  return host::make_tensor_desc(dtype, dims, RT_LAYOUT_CANONICAL);
}

// The logits of `rows` tokens over a vocabulary of 50257.
host::Operation logits(int64_t rows) {
  host::Operation op;
  op.name = RT_OP_MATMUL;
  op.inputs = {canonical(RT_BFLOAT16, {rows, 768}), canonical(RT_BFLOAT16, {768, 50257})};
  op.outputs = {canonical(RT_BFLOAT16, {rows, 50257})};
  return op;
}

host::Operation gradient_of_weights(rt_dtype dtype) {
  constexpr int64_t kRows = 64 * 1024;
  host::Operation op;
  op.name = RT_OP_MATMUL;
  op.attributes = {{RT_ATTR_TRANSPOSE_A, int64_t{1}}};
  op.inputs = {canonical(dtype, {kRows, 50257}), canonical(dtype, {kRows, 768})};
  op.outputs = {canonical(dtype, {50257, 768})};
  return op;
}

// The names of the candidates. The plugin's own kernels refuse products here.
std::set<std::string> names_of(host::Device& device, const host::Operation& op) {
  std::set<std::string> names;
  for (const rt_candidate& c : device.query(op).candidates) names.insert(c.implementation);
  return names;
}

double flops_of(const host::Kernel& kernel) {
  double flops = 0;
  for (const auto& work : kernel.work()) flops += work.flops;
  return flops;
}

// 42,730 rows of 50,257 elements are below 2^31 elements, 42,731 are not. The stand-in refuses what
// 31 bits do not count.
TEST(CudaVendorCounts, ProductsAreDividedIntoOnesThatTheLibraryCounts) {
  using Names = std::set<std::string>;
  const auto device = open_double();
  EXPECT_EQ(names_of(*device, logits(42730)), Names{"cublaslt"});
  EXPECT_EQ(names_of(*device, logits(42731)), Names{"cublaslt, 2 parts"});
  EXPECT_EQ(names_of(*device, logits(64 * 1024)), Names{"cublaslt, 2 parts"});
  EXPECT_EQ(names_of(*device, logits(96 * 1024)), Names{"cublaslt, 3 parts"});
  const host::Kernel parts = device->create_kernel(logits(64 * 1024));
  EXPECT_EQ(parts.work().size(), 2u);
  EXPECT_EQ(flops_of(parts), 2.0 * 64 * 1024 * 768 * 50257);
  EXPECT_EQ(names_of(*device, gradient_of_weights(RT_BFLOAT16)), Names{"cublaslt, 2 parts"});
  const host::Support half = device->query(gradient_of_weights(RT_FLOAT16));
  EXPECT_EQ(half.level, RT_SUPPORT_REFUSED) << "a part of the sum may overflow in float16";
}

// The post-operations of a product that is divided are a pass.
TEST(CudaVendorCounts, ADividedProductHasNoEpilogue) {
  const auto device = open_double();
  host::Operation op = logits(64 * 1024);
  for (rt_tensor_desc* t : {&op.inputs[0], &op.inputs[1], &op.outputs[0]}) t->dtype = RT_FLOAT32;
  op.inputs.push_back(canonical(RT_FLOAT32, {50257}));
  op.post_ops = {{RT_POST_BIAS, 0, 2}};
  const host::Kernel kernel = device->create_kernel(op);
  ASSERT_EQ(kernel.work().size(), 3u);
  EXPECT_EQ(kernel.work()[1].name, "cublaslt");
  EXPECT_EQ(kernel.work()[2].name, "post-operations");
}

// In rows of 50,304 elements the library is asked for the first 50,256 columns and the last one.
TEST(CudaVendorCounts, ThePaddingOfRowsCountsToo) {
  const auto device = open_double();
  host::Operation padded = logits(42730);  // 42,690 rows of 50,304 elements are counted
  padded.inputs[1].layout = padded.outputs[0].layout = rt::sdk::row_layout(50304);
  EXPECT_EQ(names_of(*device, padded),
            (std::set<std::string>{"cublaslt, 2 parts", "cublaslt, 4 parts"}));
}

// The stand-ins have no kernels of our own, which would serve larger convolutions.
TEST(CudaVendorCounts, CudnnIsAskedForConvolutionsThatItCounts) {
  const auto device = open_double();
  const auto level = [&](int64_t images) {
    host::Operation op;
    op.name = RT_OP_CONV2D;
    op.inputs = {canonical(RT_BFLOAT16, {images, 128, 128, 64}),
                 canonical(RT_BFLOAT16, {8, 1, 1, 64})};
    op.outputs = {canonical(RT_BFLOAT16, {images, 128, 128, 8})};
    return device->query(op).level;
  };
  EXPECT_EQ(level(2047), RT_SUPPORT_NATIVE);
  EXPECT_EQ(level(2048), RT_SUPPORT_REFUSED);
}

}  // namespace
