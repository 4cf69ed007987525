// Tests the calls of the plugin `cuda` to cuBLASLt and cuDNN, with stand-ins for these libraries in
// host memory (tests/doubles), and the plugin's options.
#include <gmock/gmock.h>

#include <random>
#include <thread>

#include "plugins/conformance/conformance.h"
#include "plugins/host/error.h"
#include "rt/operations.h"
#include "rt/sdk/foreign_layout.h"

namespace {

namespace conformance = plugins::conformance;
namespace host = plugins::host;
using conformance::Case;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Options = std::map<std::string, std::string>;

std::shared_ptr<host::Device> open(const char* library, const Options& options = {}) {
  return host::Device::open(host::Plugin::load(library, {}), 0, {0, options});
}

std::string words_of_open(const Options& options) {
  try {
    open(CUDA_VENDOR_DOUBLE, options);
  } catch (const host::Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

rt_tensor_desc tensor(rt_dtype dtype, const std::vector<int64_t>& dims) {
  return host::make_tensor_desc(dtype, dims, RT_LAYOUT_CANONICAL);
}

// A product with random shape, transpositions, leading dimensions and post-operations.
Case random_product(std::mt19937& random) {
  const auto up_to = [&](unsigned most) { return static_cast<int64_t>(random() % most) + 1; };
  const auto with = [](std::vector<int64_t> dims, int64_t rows, int64_t columns, bool transposed) {
    dims.push_back(transposed ? columns : rows);
    dims.push_back(transposed ? rows : columns);
    return dims;
  };
  const int64_t m = up_to(9), n = up_to(9), k = up_to(9);
  const bool ta = random() % 2 == 0, tb = random() % 2 == 0, b_has_batch = random() % 2 == 0;
  std::vector<int64_t> leading;
  for (int64_t rank = up_to(3); rank > 1; --rank) leading.push_back(up_to(4));
  Case c;
  c.dtype = random() % 2 == 0 ? RT_FLOAT32 : RT_FLOAT64;
  host::Operation& op = c.operation;
  op.name = RT_OP_MATMUL;
  op.attributes = {{RT_ATTR_TRANSPOSE_A, int64_t{ta}}, {RT_ATTR_TRANSPOSE_B, int64_t{tb}}};
  op.inputs = {tensor(c.dtype, with(leading, m, k, ta)),
               tensor(c.dtype, with(b_has_batch ? leading : std::vector<int64_t>{}, k, n, tb))};
  op.outputs = {tensor(c.dtype, with(leading, m, n, false))};
  for (int64_t posts = up_to(5); posts > 1; --posts) {
    const auto kind = static_cast<int32_t>(up_to(4));
    const auto function = static_cast<int32_t>(up_to(5));
    const bool operand = kind != RT_POST_ACTIVATION;
    op.post_ops.push_back({kind, function, operand ? static_cast<int32_t>(op.inputs.size()) : -1});
    if (operand) {
      op.inputs.push_back(kind == RT_POST_BIAS ? tensor(c.dtype, {n}) : op.outputs[0]);
    }
  }
  for (size_t i = 0; i < op.inputs.size(); ++i) c.inputs.push_back({-1, 1, random()});
  return c;
}

TEST(CudaVendor, RandomProductsAreThoseOfTheReference) {
  const auto device = open(CUDA_VENDOR_DOUBLE), reference = open(REFERENCE_PLUGIN);
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    const Case c = random_product(random);
    const conformance::Result result = run_case(*device, *reference, c);
    ASSERT_EQ(result.outcome, conformance::Outcome::kPassed) << i << ": " << result.detail;
    ASSERT_GE(result.candidates, 3);  // the default, and both algorithms of the stand-in
  }
}

struct Expected {
  const char* operation;
  // The smallest number of cases that must pass. Others are unsupported: the stand-ins lack some
  // post-operations, and compute attention for some 16-bit cases only.
  int passed;
};
class CudaVendorConformance : public testing::TestWithParam<Expected> {};

TEST_P(CudaVendorConformance, AgreesWithTheReference) {
  const auto device = open(CUDA_VENDOR_DOUBLE), reference = open(REFERENCE_PLUGIN);
  auto cases = conformance::cases_of(GetParam().operation);
  // One 32-bit and one 16-bit type are enough, because the stand-in library is slow.
  std::erase_if(cases,
                [](const Case& c) { return c.dtype != RT_FLOAT32 && c.dtype != RT_BFLOAT16; });
  const auto summary = run_cases(*device, *reference, cases);
  EXPECT_EQ(summary.failed, 0) << summary.text() << testing::PrintToString(summary.failures);
  EXPECT_GE(summary.passed, GetParam().passed) << summary.text();
}

INSTANTIATE_TEST_SUITE_P(Operations, CudaVendorConformance,
                         testing::Values(Expected{RT_OP_MATMUL, 167}, Expected{RT_OP_CONV2D, 30},
                                         Expected{RT_OP_CONV2D_BACKWARD_DATA, 28},
                                         Expected{RT_OP_CONV2D_BACKWARD_WEIGHTS, 38},
                                         Expected{RT_OP_ATTENTION, 6},
                                         Expected{RT_OP_ATTENTION_BACKWARD, 6},
                                         Expected{RT_OP_DOT_PRODUCT_ATTENTION, 9},
                                         Expected{RT_OP_DOT_PRODUCT_ATTENTION_BACKWARD, 9}),
                         [](const auto& info) { return std::string(info.param.operation); });

// Several threads launch one plan, each with its own bias.
TEST(CudaVendor, NoLaunchSeesTheBiasOfAnother) {
  const auto device = open(CUDA_VENDOR_DOUBLE), reference = open(REFERENCE_PLUGIN);
  const auto run = [&](uint64_t seed) {
    Case c;
    c.dtype = RT_FLOAT32;
    c.operation.name = RT_OP_MATMUL;
    c.operation.inputs = {tensor(c.dtype, {16, 16}), tensor(c.dtype, {16, 16}),
                          tensor(c.dtype, {16})};
    c.operation.outputs = {tensor(c.dtype, {16, 16})};
    c.operation.post_ops = {{RT_POST_BIAS, 0, 2}};
    for (uint64_t i = 0; i < 3; ++i) c.inputs.push_back({-1, 1, 3 * seed + i});
    const conformance::Result result = run_case(*device, *reference, c);
    EXPECT_EQ(result.outcome, conformance::Outcome::kPassed) << result.detail;
  };
  std::vector<std::jthread> threads;
  for (uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&run, thread] {
      for (uint64_t i = 0; i < 100; ++i) run(100 * thread + i);
    });
  }
}

host::Support ask(host::Device& device, std::vector<host::PostOp> post_ops) {
  host::Operation op;
  op.name = RT_OP_MATMUL;
  op.inputs = {tensor(RT_FLOAT32, {4, 3}), tensor(RT_FLOAT32, {3, 5}), tensor(RT_FLOAT32, {5})};
  op.outputs = {tensor(RT_FLOAT32, {4, 5})};
  op.post_ops = std::move(post_ops);
  return device.query(op);
}

// The kernels of the plan for a product with all its post-operations, as "name + name"; "refused"
// if the device fuses fewer.
std::string kernels_of(host::Device& device, const host::Operation& op) {
  const host::Support support = device.query(op);
  if (support.level != RT_SUPPORT_NATIVE || support.post_ops_fused < op.post_ops.size())
    return "refused";
  std::string names;
  const host::Kernel kernel(device.shared_from_this(), op);
  for (const auto& work : kernel.work()) names += (names.empty() ? "" : " + ") + work.name;
  return names;
}

// A product with n columns and the given post-operations.
host::Operation layer(rt_dtype dtype, int64_t n, const std::vector<host::PostOp>& post_ops) {
  host::Operation op;
  op.name = RT_OP_MATMUL;
  op.inputs = {tensor(dtype, {4, 3}), tensor(dtype, {3, n})};
  op.outputs = {tensor(dtype, {4, n})};
  for (host::PostOp post : post_ops) {
    const bool operand = post.kind != RT_POST_ACTIVATION && post.kind != RT_POST_STORE;
    post.operand = operand ? static_cast<int32_t>(op.inputs.size()) : -1;
    if (operand) op.inputs.push_back(tensor(dtype, {4, n}));
    if (post.kind == RT_POST_BIAS) op.inputs.back() = tensor(dtype, {n});
    if (post.kind == RT_POST_STORE) op.outputs.push_back(op.outputs[0]);
    op.post_ops.push_back(post);
  }
  return op;
}

TEST(CudaVendor, TheOperandOfAGeluIsStoredByTheLibrary) {
  const auto device = open(CUDA_VENDOR_DOUBLE);
  const host::PostOp bias = {RT_POST_BIAS, 0, 0}, store = {RT_POST_STORE, 0, -1},
                     tanh = {RT_POST_ACTIVATION, RT_ACTIVATION_GELU_TANH, -1};
  const auto kernels = [&](int64_t n, const std::vector<host::PostOp>& post_ops,
                           rt_dtype dtype = RT_BFLOAT16) {
    return kernels_of(*device, layer(dtype, n, post_ops));
  };
  EXPECT_EQ(kernels(16, {bias, store, tanh}), "cublaslt gelu_aux_bias");
  EXPECT_EQ(kernels(16, {store, tanh}), "cublaslt gelu_aux");
  // Its rows are no multiples of 8 elements.
  EXPECT_EQ(kernels(12, {bias, store, tanh}), "refused");
  // The library has the tanh formula only.
  EXPECT_EQ(kernels(16, {bias, store, {RT_POST_ACTIVATION, RT_ACTIVATION_GELU, -1}}), "refused");
  EXPECT_EQ(kernels(16, {bias, store}), "refused");
  EXPECT_EQ(device->query(layer(RT_BFLOAT16, 12, {bias, store, tanh})).post_ops_fused, 1u);
  // Its tanh is not exact enough for float32, and it has no epilogues in float64.
  EXPECT_EQ(kernels(16, {bias, store, tanh}, RT_FLOAT32), "refused");
  EXPECT_EQ(kernels(16, {bias, store, tanh}, RT_FLOAT64), "refused");
}

TEST(CudaVendor, TheGradientOfAGeluIsAnEpilogue) {
  const auto device = open(CUDA_VENDOR_DOUBLE);
  const host::PostOp tanh = {RT_POST_ACTIVATION_BACKWARD, RT_ACTIVATION_GELU_TANH, 0};
  EXPECT_EQ(kernels_of(*device, layer(RT_BFLOAT16, 16, {tanh})), "cublaslt dgelu");
  EXPECT_EQ(kernels_of(*device, layer(RT_FLOAT32, 13, {tanh})), "cublaslt + post-operations");
  EXPECT_EQ(kernels_of(*device, layer(RT_FLOAT32, 16, {{RT_POST_BIAS, 0, 0}, tanh})),
            "cublaslt bias + post-operations");
}

// The relu of some algorithms turns NaN into 0.
TEST(CudaVendor, AReluIsAPass) {
  const auto device = open(CUDA_VENDOR_DOUBLE);
  const host::PostOp bias = {RT_POST_BIAS, 0, 0},
                     relu = {RT_POST_ACTIVATION, RT_ACTIVATION_RELU, -1};
  EXPECT_EQ(kernels_of(*device, layer(RT_FLOAT32, 16, {bias, relu})),
            "cublaslt bias + post-operations");
  EXPECT_EQ(kernels_of(*device, layer(RT_FLOAT32, 16, {relu})), "cublaslt + post-operations");
}

// Twelve columns are a multiple of 16 bytes in float32, not in 16 bits, and a pass follows.
TEST(CudaVendor, AProductWithAPassHasOnePart) {
  const auto device = open(CUDA_VENDOR_DOUBLE), reference = open(REFERENCE_PLUGIN);
  Case c;
  c.dtype = RT_BFLOAT16;
  c.operation.name = RT_OP_MATMUL;
  c.operation.attributes = {{RT_ATTR_TRANSPOSE_B, int64_t{1}}};
  c.operation.inputs = {tensor(RT_BFLOAT16, {8, 16}), tensor(RT_BFLOAT16, {12, 16})};
  c.operation.outputs = {tensor(RT_FLOAT32, {8, 12})};
  c.operation.post_ops = {{RT_POST_ACTIVATION, RT_ACTIVATION_RELU, -1}};
  c.inputs = {{-1, 1, 1}, {-1, 1, 2}};
  EXPECT_EQ(kernels_of(*device, c.operation), "cublaslt + post-operations");
  const conformance::Result result = run_case(*device, *reference, c);
  EXPECT_EQ(result.outcome, conformance::Outcome::kPassed) << result.detail;
}

TEST(CudaVendor, TheGradientOfABiasIsAnEpilogue) {
  const auto device = open(CUDA_VENDOR_DOUBLE);
  const auto kernels = [&](rt_dtype dtype, rt_dtype result) {
    host::Operation op;
    op.name = RT_OP_MATMUL;
    op.attributes = {{RT_ATTR_TRANSPOSE_A, int64_t{1}}};
    op.inputs = {tensor(dtype, {6, 5}), tensor(dtype, {6, 7})};
    op.outputs = {tensor(result, {5, 7}), tensor(result, {5})};
    return kernels_of(*device, op);
  };
  EXPECT_EQ(kernels(RT_FLOAT32, RT_FLOAT32), "cublaslt bgradb");
  EXPECT_EQ(kernels(RT_BFLOAT16, RT_BFLOAT16), "cublaslt bgradb");
  EXPECT_EQ(kernels(RT_BFLOAT16, RT_FLOAT32), "cublaslt bgradb");
  EXPECT_EQ(kernels(RT_FLOAT64, RT_FLOAT64), "cublaslt + sums of columns");
}

TEST(CudaVendor, TellsWhatItsKernelsReadAndMultiply) {
  const auto device = open(CUDA_VENDOR_DOUBLE);
  const host::PostOp tanh = {RT_POST_ACTIVATION, RT_ACTIVATION_TANH, -1};
  const host::Kernel kernel(
      device, layer(RT_FLOAT32, 16, {{RT_POST_BIAS, 0, 0}, {RT_POST_RESIDUAL_ADD, 0, 0}, tanh}));
  ASSERT_EQ(kernel.work().size(), 2u);
  EXPECT_EQ(kernel.work()[0].bytes, 4 * (4 * 3 + 3 * 16 + 4 * 16 + 16 + 4 * 16));
  EXPECT_EQ(kernel.work()[0].flops, 2 * 4 * 16 * 3);
  EXPECT_EQ(kernel.work()[1].bytes, 4 * (2 * 4 * 16));
  EXPECT_EQ(kernel.work()[1].flops, 0);
}

TEST(CudaVendor, ListsTheLibrarysAlgorithms) {
  const auto device = open(CUDA_VENDOR_DOUBLE);
  const host::Support support = ask(*device, {{RT_POST_BIAS, 0, 2}});
  ASSERT_EQ(support.candidates.size(), 2u);
  EXPECT_STREQ(support.candidates[0].implementation, "cublaslt");
  EXPECT_EQ(support.candidates[1].algorithm, 2u);
  EXPECT_EQ(support.post_ops_fused, 1u);
}

TEST(CudaVendor, Tf32IsAChoiceAndShows) {
  EXPECT_LT(ask(*open(CUDA_VENDOR_DOUBLE), {{RT_POST_BIAS, 0, 2}}).tolerance, 1e-4);
  const auto device = open(CUDA_VENDOR_DOUBLE, {{"tf32", "true"}});
  const host::Support support = ask(*device, {{RT_POST_BIAS, 0, 2}});
  EXPECT_STREQ(support.candidates.at(0).implementation, "cublaslt tf32");
  EXPECT_GT(support.tolerance, 1e-4);
}

// With operands that lose 13 bits, as on tensor cores, the plugin keeps the tolerance that it
// claims.
class Tf32Conformance : public testing::TestWithParam<const char*> {};

TEST_P(Tf32Conformance, AgreesWithTheReference) {
  const auto device = open(CUDA_VENDOR_DOUBLE, {{"tf32", "true"}});
  const auto reference = open(REFERENCE_PLUGIN);
  auto cases = conformance::cases_of(GetParam());
  std::erase_if(cases, [](const Case& c) { return c.dtype != RT_FLOAT32; });
  const auto summary = run_cases(*device, *reference, cases);
  EXPECT_EQ(summary.failed, 0) << summary.text() << testing::PrintToString(summary.failures);
  EXPECT_GE(summary.passed, 14) << summary.text();
}

INSTANTIATE_TEST_SUITE_P(Operations, Tf32Conformance,
                         testing::Values(RT_OP_MATMUL, RT_OP_CONV2D, RT_OP_CONV2D_BACKWARD_DATA,
                                         RT_OP_CONV2D_BACKWARD_WEIGHTS),
                         [](const auto& info) { return std::string(info.param); });

// A product of which one matrix [1024,2051] is so large and so odd that its rows are to be padded.
// The stand-in multiplies with the leading dimensions that it is given.
enum class Padded { kResult, kLeft, kLeftTransposed };
class CudaVendorPadded : public testing::TestWithParam<Padded> {
 protected:
  static Case product() {
    const bool result = GetParam() == Padded::kResult, ta = GetParam() == Padded::kLeftTransposed;
    constexpr int64_t kRows = 256, kBatch = 4, kColumns = 2051, kOther = 8;
    Case c;
    c.dtype = RT_BFLOAT16;
    host::Operation& op = c.operation;
    op.name = RT_OP_MATMUL;
    op.attributes = {{RT_ATTR_TRANSPOSE_A, int64_t{ta}}, {RT_ATTR_TRANSPOSE_B, int64_t{result}}};
    const rt_tensor_desc padded = ta ? tensor(c.dtype, {kBatch * kRows, kColumns})
                                     : tensor(c.dtype, {kBatch, kRows, kColumns});
    if (result) {
      op.inputs = {tensor(c.dtype, {kBatch, kRows, kOther}), tensor(c.dtype, {kColumns, kOther})};
      op.outputs = {padded};
    } else if (ta) {
      op.inputs = {padded, tensor(c.dtype, {kBatch * kRows, kOther})};
      op.outputs = {tensor(c.dtype, {kColumns, kOther})};
    } else {
      op.inputs = {padded, tensor(c.dtype, {kColumns, kOther})};
      op.outputs = {tensor(c.dtype, {kBatch, kRows, kOther})};
    }
    c.inputs = {{-1, 1, 1}, {-1, 1, 2}};
    return c;
  }
};

TEST_P(CudaVendorPadded, AgreesWithTheReference) {
  const auto device = open(CUDA_VENDOR_DOUBLE), reference = open(REFERENCE_PLUGIN);
  const conformance::Result result = run_case(*device, *reference, product());
  EXPECT_EQ(result.outcome, conformance::Outcome::kPassed) << result.detail;
  // The default, and both algorithms in both layouts; with padded rows also in two parts.
  EXPECT_EQ(result.candidates, 7);
}

TEST_P(CudaVendorPadded, IsOfferedForThatMatrixAlone) {
  host::Operation op = product().operation;
  for (auto* list : {&op.inputs, &op.outputs}) {
    for (rt_tensor_desc& t : *list) t.layout = RT_LAYOUT_ANY;
  }
  const host::Support support = open(CUDA_VENDOR_DOUBLE)->query(op);
  ASSERT_EQ(support.candidates.size(), 6u);
  const rt_candidate &plain = support.candidates[0], &padded = support.candidates[2];
  EXPECT_STREQ(plain.implementation, "cublaslt");
  EXPECT_STREQ(padded.implementation, "cublaslt, 2 parts");
  const bool result = GetParam() == Padded::kResult;
  EXPECT_EQ(result ? padded.output_layouts[0] : padded.input_layouts[0], rt::sdk::row_layout(2112));
  EXPECT_EQ(result ? padded.output_bytes[0] : padded.input_bytes[0], 2112u * 1024 * 2);
  EXPECT_EQ(result ? padded.input_layouts[0] : padded.output_layouts[0], RT_LAYOUT_CANONICAL);
  EXPECT_EQ(plain.input_layouts[0], RT_LAYOUT_CANONICAL);
  EXPECT_GT(padded.estimated_ns, 0);
  EXPECT_GT(plain.estimated_ns, 0);
}

std::string name_of(const testing::TestParamInfo<Padded>& info) {
  if (info.param == Padded::kResult) return "Result";
  return info.param == Padded::kLeft ? "Left" : "LeftTransposed";
}
INSTANTIATE_TEST_SUITE_P(Matrices, CudaVendorPadded,
                         testing::Values(Padded::kResult, Padded::kLeft, Padded::kLeftTransposed),
                         name_of);

// The logits of GPT-2 124M at 8 sequences of 1024 tokens. What padding gains is more than what the
// copies of a whole matrix would cost.
TEST(CudaVendor, LogitsOfALanguageModelArePadded) {
  const auto device = open(CUDA_VENDOR_DOUBLE);
  host::Operation op;
  op.name = RT_OP_MATMUL;
  op.attributes = {{RT_ATTR_TRANSPOSE_B, int64_t{1}}};
  op.inputs = {host::make_tensor_desc(RT_BFLOAT16, {8, 1024, 768}, RT_LAYOUT_ANY),
               host::make_tensor_desc(RT_BFLOAT16, {50257, 768}, RT_LAYOUT_ANY)};
  op.outputs = {host::make_tensor_desc(RT_BFLOAT16, {8, 1024, 50257}, RT_LAYOUT_ANY)};
  const host::Support support = device->query(op);
  ASSERT_EQ(support.candidates.size(), 6u);
  const rt_candidate &plain = support.candidates[0], &padded = support.candidates[2];
  EXPECT_EQ(padded.output_layouts[0], rt::sdk::row_layout(50304));
  EXPECT_EQ(padded.input_layouts[1], RT_LAYOUT_CANONICAL);
  host::Operation copy;
  copy.name = RT_OP_COPY;
  copy.inputs = copy.outputs = op.outputs;
  copy.inputs[0].layout = RT_LAYOUT_CANONICAL;
  copy.outputs[0].layout = padded.output_layouts[0];
  const double moving = device->query(copy).candidates.at(0).estimated_ns;
  EXPECT_GT(plain.estimated_ns, padded.estimated_ns + moving);
}

TEST(CudaVendor, SmallAndAlignedMatricesStayCanonical) {
  const auto device = open(CUDA_VENDOR_DOUBLE);
  for (const std::vector<int64_t>& c : {std::vector<int64_t>{64, 51}, {4096, 2048}}) {
    host::Operation op;
    op.name = RT_OP_MATMUL;
    op.inputs = {host::make_tensor_desc(RT_BFLOAT16, {c[0], 8}, RT_LAYOUT_ANY),
                 host::make_tensor_desc(RT_BFLOAT16, {8, c[1]}, RT_LAYOUT_ANY)};
    op.outputs = {host::make_tensor_desc(RT_BFLOAT16, c, RT_LAYOUT_ANY)};
    const host::Support support = device->query(op);
    EXPECT_EQ(support.candidates.size(), 2u);
    for (const rt_candidate& candidate : support.candidates) {
      EXPECT_EQ(candidate.output_layouts[0], RT_LAYOUT_CANONICAL);
    }
  }
}

// cuDNN fuses nothing into a gradient, and cuBLASLt no exact gelu: a pass over the result, inside
// the plan, applies all of it (backends/gpu/README.md, "Post-operations"), on the library's fast
// path.
TEST(CudaVendor, WhatTheLibraryLacksIsAPassOfItsPlan) {
  const auto device = open(CUDA_VENDOR_DOUBLE), reference = open(REFERENCE_PLUGIN);
  Case gradient;
  gradient.dtype = RT_FLOAT32;
  host::Operation& op = gradient.operation;
  const rt_tensor_desc image = tensor(RT_FLOAT32, {2, 5, 5, 4});
  op.name = RT_OP_CONV2D_BACKWARD_DATA;
  op.inputs = {tensor(RT_FLOAT32, {2, 3, 3, 6}), tensor(RT_FLOAT32, {6, 3, 3, 4}), image, image};
  op.outputs = {image};
  op.post_ops = {{RT_POST_RESIDUAL_ADD, 0, 2},
                 {RT_POST_ACTIVATION_BACKWARD, RT_ACTIVATION_RELU, 3}};
  for (uint64_t i = 0; i < 4; ++i) gradient.inputs.push_back({-1, 1, i + 1});
  const host::Support support = device->query(op);
  EXPECT_EQ(support.level, RT_SUPPORT_NATIVE) << support.reason;
  EXPECT_EQ(support.post_ops_fused, 2u);
  ASSERT_FALSE(support.candidates.empty());
  EXPECT_THAT(support.candidates[0].implementation, HasSubstr("cudnn"));
  // Without measurements the estimates decide; they must not prefer our own kernel.
  for (const rt_candidate& candidate : support.candidates)
    EXPECT_GE(candidate.estimated_ns, support.candidates[0].estimated_ns);
  const conformance::Result result = run_case(*device, *reference, gradient);
  EXPECT_EQ(result.outcome, conformance::Outcome::kPassed) << result.detail;

  const host::Support product =
      ask(*device, {{RT_POST_BIAS, 0, 2}, {RT_POST_ACTIVATION, RT_ACTIVATION_GELU, -1}});
  EXPECT_EQ(product.level, RT_SUPPORT_NATIVE) << product.reason;
  EXPECT_EQ(product.post_ops_fused, 2u);
}

TEST(CudaVendor, WithoutLibrariesOnlyTheOwnKernelsAreLeft) {
  const auto device = open(CUDA_VENDOR_DOUBLE, {{"vendor_libraries", "false"}});
  EXPECT_THAT(ask(*device, {{RT_POST_BIAS, 0, 2}}).reason, HasSubstr("has no kernels"));
}

// The stand-ins end the process if a handle uses a stream that was destroyed, as the one on which
// candidates are measured is.
TEST(CudaVendor, LibrariesKeepNoDestroyedStream) {
  const auto device = open(CUDA_VENDOR_DOUBLE);
  host::Operation op;
  op.name = RT_OP_CONV2D;
  op.inputs = {tensor(RT_FLOAT32, {1, 4, 4, 1}), tensor(RT_FLOAT32, {1, 3, 3, 1})};
  op.outputs = {tensor(RT_FLOAT32, {1, 2, 2, 1})};
  host::Kernel kernel = device->create_kernel(op);
  ASSERT_THAT(kernel.info().implementation, HasSubstr("cudnn"));
  const host::Memory x = device->allocate(64), w = device->allocate(36), y = device->allocate(16),
                     workspace = device->allocate(kernel.info().workspace_bytes);
  const void* inputs[] = {x.data(), w.data()};
  void* outputs[] = {y.data()};
  rt_launch launch{};
  launch.size = sizeof(launch);
  launch.inputs = inputs, launch.input_count = 2;
  launch.outputs = outputs, launch.output_count = 1;
  launch.workspace = workspace.data();
  host::Stream lasting = device->create_stream();
  const std::vector<float> ones(16, 1.0f);
  lasting.copy(x.data(), ones.data(), 64);
  lasting.copy(w.data(), ones.data(), 36);
  kernel.launch(lasting, launch);
  for (int i = 0; i < 3; ++i) {
    host::Stream measuring = device->create_stream();
    kernel.launch(measuring, launch);
  }
  lasting.copy(y.data(), ones.data(), 16);
  kernel.launch(lasting, launch);
  std::vector<float> sums(4);
  lasting.copy(sums.data(), y.data(), 16);
  lasting.synchronize();
  EXPECT_THAT(sums, ::testing::Each(9.0f));
}

// A convolution [2,5,5,4] by weights [8,3,3,4] of float32.
host::Operation convolution(const char* name) {
  const rt_tensor_desc x = tensor(RT_FLOAT32, {2, 5, 5, 4}), w = tensor(RT_FLOAT32, {8, 3, 3, 4}),
                       y = tensor(RT_FLOAT32, {2, 3, 3, 8});
  host::Operation op;
  op.name = name;
  if (op.name == RT_OP_CONV2D) op.inputs = {x, w}, op.outputs = {y};
  if (op.name == RT_OP_CONV2D_BACKWARD_DATA) op.inputs = {y, w}, op.outputs = {x};
  if (op.name == RT_OP_CONV2D_BACKWARD_WEIGHTS)
    op.inputs = {x, y}, op.outputs = {w, tensor(RT_FLOAT32, {8})};
  return op;
}

constexpr double kOperands = 4 * (2 * 5 * 5 * 4 + 8 * 3 * 3 * 4 + 2 * 3 * 3 * 8),  // bytes
    kResult = 4 * 2 * 3 * 3 * 8, kConvolutionFlops = 2.0 * (2 * 3 * 3 * 8) * (3 * 3 * 4);

TEST(CudaVendor, AConvolutionTellsItsKernels) {
  const auto device = open(CUDA_VENDOR_DOUBLE);
  host::Operation forward = convolution(RT_OP_CONV2D);
  forward.inputs.push_back(tensor(RT_FLOAT32, {8}));
  forward.post_ops = {{RT_POST_BIAS, 0, 2}};
  const host::Kernel fused = device->create_kernel(forward);
  ASSERT_EQ(fused.work().size(), 1u);
  EXPECT_THAT(fused.work()[0].name, HasSubstr("cudnn engine"));
  EXPECT_EQ(fused.work()[0].bytes, kOperands + 4 * 8);
  EXPECT_EQ(fused.work()[0].flops, kConvolutionFlops);
  forward.inputs.push_back(forward.outputs[0]);
  // With an activation a pass computes the sums, too.
  forward.post_ops.push_back({RT_POST_ACTIVATION, RT_ACTIVATION_RELU, -1});
  forward.post_ops.push_back({RT_POST_RESIDUAL_ADD, 0, 3});
  const host::Kernel passed = device->create_kernel(forward);
  ASSERT_EQ(passed.work().size(), 2u);
  EXPECT_EQ(passed.work()[1].bytes, 3 * kResult + 4 * 8);
  EXPECT_EQ(passed.work()[1].flops, 0);
  const host::Kernel data = device->create_kernel(convolution(RT_OP_CONV2D_BACKWARD_DATA));
  ASSERT_EQ(data.work().size(), 1u);
  EXPECT_EQ(data.work()[0].bytes, kOperands);
  const host::Kernel weights = device->create_kernel(convolution(RT_OP_CONV2D_BACKWARD_WEIGHTS));
  ASSERT_EQ(weights.work().size(), 2u);  // few rows are summed by one kernel
  EXPECT_EQ(weights.work()[0].flops, kConvolutionFlops);
  EXPECT_GE(weights.work()[1].bytes, kResult) << "the sums of the columns read the gradient";
}

TEST(CudaVendor, OptionsAreChecked) {
  EXPECT_THAT(
      words_of_open({{"vendor_librarys", "true"}}),
      AllOf(HasSubstr("vendor_librarys"), HasSubstr("vendor_libraries"), HasSubstr("tf32")));
  EXPECT_THAT(words_of_open({{"tf32", "yes"}}),
              AllOf(HasSubstr("yes"), HasSubstr("true or false")));
  EXPECT_THAT(words_of_open({{"tf32", "true"}, {"vendor_libraries", "false"}}),
              HasSubstr("needs vendor_libraries = true"));
}

}  // namespace
