// Compares the cpu backend with the reference: every conformance case in every layout and algorithm
// that it offers; one test per operation.
#include "plugins/conformance/conformance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "backends/cpu/bfloat16/processor.h"
#include "backends/cpu/isa.h"
#include "rt/operations.h"

namespace {

namespace conformance = plugins::conformance;
namespace host = plugins::host;

// RUNTIME_TEST_PLUGINS names the folder of the plugins, for a build that was moved.
std::shared_ptr<host::Device> open(const std::filesystem::path& built,
                                   const host::DeviceOptions& options = {}) {
  const char* const folder = std::getenv("RUNTIME_TEST_PLUGINS");
  const std::filesystem::path library = folder == nullptr ? built : folder / built.filename();
  return host::Device::open(host::Plugin::load(library, {}), 0, options);
}

// The cpu backend has no loss_scale, which only float16 needs.
bool is_missing(const std::string& operation) { return operation == RT_OP_LOSS_SCALE; }

// It also refuses floating-point types other than float32, and bfloat16 where the processor lacks
// the instructions or the environment keeps oneDNN from using them.
bool is_refused(const host::Operation& operation) {
  if (is_missing(operation.name)) return true;
  static const bool kBfloat16 =
      backends::cpu::has_bfloat16() && std::getenv("ONEDNN_MAX_CPU_ISA") == nullptr;
  const auto other = [](const rt_tensor_desc& tensor) {
    return tensor.dtype == RT_FLOAT64 || tensor.dtype == RT_FLOAT16 ||
           (tensor.dtype == RT_BFLOAT16 && !kBfloat16);
  };
  return std::any_of(operation.inputs.begin(), operation.inputs.end(), other) ||
         std::any_of(operation.outputs.begin(), operation.outputs.end(), other);
}

bool is_empty(const rt_tensor_desc& tensor) {
  return std::count(tensor.dims, tensor.dims + tensor.rank, 0) > 0;
}

// The form of matmul with the sums over the rows of a, which only the matrix unit computes.
bool refuses_row_sums(const host::Operation& operation) {
  const auto stores = std::count_if(operation.post_ops.begin(), operation.post_ops.end(),
                                    [](const auto& post) { return post.kind == RT_POST_STORE; });
  if (operation.name != RT_OP_MATMUL || std::ssize(operation.outputs) <= 1 + stores) return false;
  return operation.inputs[0].dtype != RT_BFLOAT16 || operation.outputs[0].dtype != RT_FLOAT32 ||
         !backends::cpu::has_bfloat16_matrices() ||
         std::any_of(operation.inputs.begin(), operation.inputs.begin() + 2, is_empty);
}

// A convolution with its pooling is left to two operations where these are faster, or where only
// they have the form.
bool refuses_pooling(const host::Operation& operation) {
  const bool forward = operation.name == RT_OP_CONV2D_POOL2D;
  if (!forward && operation.name != RT_OP_CONV2D_POOL2D_BACKWARD_WEIGHTS) return false;
  const auto integer = [&](const char* name, int64_t fallback) {
    for (const auto& attribute : operation.attributes) {
      if (attribute.name == name) return std::get<int64_t>(attribute.value);
    }
    return fallback;
  };
  const rt_tensor_desc& x = operation.inputs[0];
  const rt_tensor_desc& w = forward ? operation.inputs[1] : operation.outputs[0];
  const int64_t function = integer(RT_ATTR_FUNCTION, 0), lanes = (x.dims[0] + 15) / 16 * 16;
  return (function != 0 && function != RT_ACTIVATION_RELU) || integer(RT_ATTR_GROUPS, 1) != 1 ||
         w.dims[1] * w.dims[2] * w.dims[3] > 75 || 2 * x.dims[0] < lanes || is_empty(x);
}

class CpuConformance : public testing::TestWithParam<std::string> {
 protected:
  void check(const host::DeviceOptions& options) {
    const auto device = open(CPU_PLUGIN, options);
    const auto reference = open(REFERENCE_PLUGIN);
    int passed = 0;
    for (const conformance::Case& c : conformance::cases_of(GetParam())) {
      const conformance::Result result = run_case(*device, *reference, c);
      if (is_refused(c.operation) || refuses_row_sums(c.operation) ||
          refuses_pooling(c.operation)) {
        EXPECT_EQ(result.outcome, conformance::Outcome::kSkipped)
            << c.name << ": " << result.detail;
        continue;
      }
      EXPECT_EQ(result.outcome, conformance::Outcome::kPassed) << c.name << ": " << result.detail;
      passed += result.outcome == conformance::Outcome::kPassed;
    }
    EXPECT_EQ(passed > 0, !is_missing(GetParam()));
  }
};

TEST_P(CpuConformance, AgreesWithTheReferenceOnOneThread) { check({1, {}}); }
TEST_P(CpuConformance, AgreesWithTheReferenceOnThreeThreads) { check({3, {}}); }

INSTANTIATE_TEST_SUITE_P(Operations, CpuConformance,
                         testing::ValuesIn(conformance::covered_operations()),
                         [](const auto& info) { return info.param; });

// Where tanh and sigmoid are almost 1, their results have few digits of their derivatives. The
// suite leaves that out, because a gradient by formulas knows the results alone.
TEST(CpuGate, KeepsTheDigitsOfItsGradientWhereItIsAlmostOne) {
  for (const int64_t function : {RT_ACTIVATION_TANH, RT_ACTIVATION_SIGMOID}) {
    const rt_tensor_desc x = host::make_tensor_desc(RT_FLOAT32, {5});
    conformance::Case c;
    c.name = "gate almost 1";
    c.operation.name = RT_OP_GATED_ACTIVATION_BACKWARD;
    c.operation.attributes = {{RT_ATTR_FUNCTION, function}};
    c.operation.inputs = {x, x, x};
    c.operation.outputs = {x, x};
    c.inputs = {conformance::Values{}, conformance::Values{4, 8, 2}, conformance::Values{-1, 1, 3}};
    const auto result = run_case(*open(CPU_PLUGIN), *open(REFERENCE_PLUGIN), c);
    EXPECT_EQ(result.outcome, conformance::Outcome::kPassed) << result.detail;
  }
}

}  // namespace
