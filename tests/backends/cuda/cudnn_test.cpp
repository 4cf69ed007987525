// Asks the real cuDNN to plan our graphs for a device that is only described to it
// (tests/doubles/h100.h). Every convolution of the conformance suite and the attention of models
// must have an engine. Nothing runs.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "plugins/conformance/conformance.h"
#include "rt/operations.h"
#include "rt/sdk/operation.h"

namespace {

namespace conformance = plugins::conformance;
namespace host = plugins::host;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::shared_ptr<host::Device> open(const char* tf32) {
  return host::Device::open(host::Plugin::load(CUDNN_PLAN_DOUBLE, {}), 0, {0, {{"tf32", tf32}}});
}

// The plugin does not ask cuDNN for these; `cudnn.cpp` says why.
bool is_left_to_us(const host::Operation& operation) {
  const host::OperationView view(operation);
  const rt::sdk::Operation op(view.get());
  return op.integer(RT_ATTR_PAD_TOP, 0) != op.integer(RT_ATTR_PAD_BOTTOM, 0) ||
         op.integer(RT_ATTR_PAD_LEFT, 0) != op.integer(RT_ATTR_PAD_RIGHT, 0);
}
bool is_empty(const host::Operation& op) { return op.inputs[0].dims[0] == 0; }
// The double of the passes lacks some operations, and in 16 bits all of them.
bool needs_missing_pass(const host::Operation& op, bool narrow) {
  const bool activates =
      std::any_of(op.post_ops.begin(), op.post_ops.end(),
                  [](const host::PostOp& post) { return post.kind == RT_POST_ACTIVATION; });
  return op.outputs.size() > 1 || (op.name != RT_OP_CONV2D && !op.post_ops.empty()) ||
         (narrow && activates);
}

class Cudnn : public testing::TestWithParam<const char*> {};

TEST_P(Cudnn, HasAnEngineForEveryCase) {
  const auto device = open("false");
  int asked = 0;
  for (const conformance::Case& c : conformance::cases_of(GetParam())) {
    const bool narrow = c.dtype == RT_BFLOAT16;
    if ((c.dtype != RT_FLOAT32 && !narrow) || is_empty(c.operation) || is_left_to_us(c.operation) ||
        needs_missing_pass(c.operation, narrow) || c.name.find("tanh") != std::string::npos)
      continue;
    const host::Support support = device->query(c.operation);
    ASSERT_FALSE(support.candidates.empty()) << c.name << ": " << support.reason;
    EXPECT_THAT(support.candidates[0].implementation, StartsWith("cudnn engine")) << c.name;
    EXPECT_EQ(support.post_ops_fused, c.operation.post_ops.size()) << c.name;
    ++asked;
  }
  EXPECT_GE(asked, 14);
}

INSTANTIATE_TEST_SUITE_P(Operations, Cudnn,
                         testing::Values(RT_OP_CONV2D, RT_OP_CONV2D_BACKWARD_DATA,
                                         RT_OP_CONV2D_BACKWARD_WEIGHTS),
                         [](const auto& info) { return std::string(info.param); });

TEST(CudnnOptions, UnevenPaddingIsLeftToUs) {
  const auto device = open("false");
  int asked = 0;
  for (const char* name :
       {RT_OP_CONV2D, RT_OP_CONV2D_BACKWARD_DATA, RT_OP_CONV2D_BACKWARD_WEIGHTS}) {
    for (const conformance::Case& c : conformance::cases_of(name)) {
      if (!is_left_to_us(c.operation) || is_empty(c.operation)) continue;
      ++asked;
      for (const rt_candidate& candidate : device->query(c.operation).candidates)
        EXPECT_THAT(candidate.implementation, Not(HasSubstr("cudnn"))) << c.name;
    }
  }
  EXPECT_GE(asked, 3);
}

TEST(CudnnOptions, Tf32IsAChoiceAndShows) {
  const auto cases = conformance::cases_of(RT_OP_CONV2D);
  const host::Support exact = open("false")->query(cases.at(0).operation);
  const host::Support tf32 = open("true")->query(cases.at(0).operation);
  EXPECT_LT(exact.tolerance, 1e-4);
  EXPECT_GT(tf32.tolerance, 1e-4);
  EXPECT_THAT(tf32.candidates.at(0).implementation, HasSubstr("tf32"));
}

// Kernels of attention are compiled when a plan is made, and loaded by the driver.
class CudnnModelsDriver : public testing::Environment {
 public:
  void SetUp() override { ASSERT_NE(dlopen(CUDA_DRIVER_DOUBLE, RTLD_NOW), nullptr) << dlerror(); }
};
testing::Environment* const kDriver = testing::AddGlobalTestEnvironment(new CudnnModelsDriver);

// The attention of a model in 16 bits: `heads` heads of queries share `key_heads` key heads.
struct Model {
  const char* name;
  int64_t length, heads, key_heads, columns, window;
};
class CudnnModels : public testing::TestWithParam<Model> {};

TEST_P(CudnnModels, HaveAnEngineForTheirAttention) {
  const Model& m = GetParam();
  const auto tensor = [&](int64_t heads) {
    return host::make_tensor_desc(RT_BFLOAT16, {2, m.length, heads * m.columns});
  };
  const rt_tensor_desc q = tensor(m.heads), k = tensor(m.key_heads);
  host::Operation forward;
  forward.name = RT_OP_DOT_PRODUCT_ATTENTION;
  forward.attributes = {{RT_ATTR_HEADS, m.heads},
                        {RT_ATTR_KEY_HEADS, m.key_heads},
                        {RT_ATTR_CAUSAL, int64_t{1}},
                        {RT_ATTR_WINDOW, m.window}};
  forward.inputs = {q, k, k};
  forward.outputs = {q};
  host::Operation backward = forward;
  backward.name = RT_OP_DOT_PRODUCT_ATTENTION_BACKWARD;
  backward.inputs = {q, q, k, k, q};
  backward.outputs = {q, k, k};
  const auto device = open("false");
  for (const host::Operation& op : {forward, backward}) {
    const host::Support support = device->query(op);
    ASSERT_FALSE(support.candidates.empty()) << support.reason;
    EXPECT_THAT(support.candidates[0].implementation, StartsWith("cudnn attention engine"));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, CudnnModels,
                         testing::Values(Model{"llama_char", 256, 6, 2, 64, 0},
                                         Model{"Llama_3_8B", 2048, 32, 8, 128, 0},
                                         Model{"Qwen_3_of_1_key_head", 512, 16, 1, 128, 0},
                                         Model{"Mistral", 1024, 32, 8, 128, 256},
                                         Model{"all_heads", 1024, 12, 12, 64, 256}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
