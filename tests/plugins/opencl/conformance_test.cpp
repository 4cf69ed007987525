// Compares the example plugin for OpenCL with the reference: every conformance case in the types
// that the device computes in, one test per operation.
#include "plugins/conformance/conformance.h"

#include <gtest/gtest.h>

#include <set>

#include "rt/operations.h"
#include "tests/plugins/opencl/support.h"

namespace {

namespace conformance = plugins::conformance;
namespace host = plugins::host;

// The operations that have kernels: the base set, convolutions, products and poolings. The plugin
// refuses all others with a reason.
const std::set<std::string> kKernels = {RT_OP_MATMUL,
                                        RT_OP_CONV2D,
                                        RT_OP_CONV2D_BACKWARD_DATA,
                                        RT_OP_CONV2D_BACKWARD_WEIGHTS,
                                        RT_OP_MAX_POOL2D,
                                        RT_OP_MAX_POOL2D_BACKWARD,
                                        RT_OP_AVG_POOL2D,
                                        RT_OP_AVG_POOL2D_BACKWARD,
                                        RT_OP_ACTIVATION,
                                        RT_OP_ACTIVATION_BACKWARD,
                                        RT_OP_ADD,
                                        RT_OP_SUBTRACT,
                                        RT_OP_MULTIPLY,
                                        RT_OP_DIVIDE,
                                        RT_OP_SCALE,
                                        RT_OP_REDUCE,
                                        RT_OP_CROSS_ENTROPY,
                                        RT_OP_CROSS_ENTROPY_BACKWARD,
                                        RT_OP_CORRECT_COUNT,
                                        RT_OP_EMBEDDING,
                                        RT_OP_EMBEDDING_BACKWARD,
                                        RT_OP_COPY,
                                        RT_OP_FILL,
                                        RT_OP_SGD};

class OpenclConformance : public testing::TestWithParam<std::string> {};

TEST_P(OpenclConformance, AgreesWithTheReference) {
  std::string reason;
  const auto device = opencl_test::open(&reason);
  if (device == nullptr) GTEST_SKIP() << reason;
  const auto reference = host::Device::open(host::Plugin::load(REFERENCE_PLUGIN, {}), 0, {});
  const conformance::Summary summary =
      run_cases(*device, *reference, conformance::cases_of(GetParam(), *device));
  EXPECT_EQ(summary.failed, 0) << summary.text();
  EXPECT_EQ(summary.passed > 0, kKernels.contains(GetParam())) << summary.text();
}

INSTANTIATE_TEST_SUITE_P(Operations, OpenclConformance,
                         testing::ValuesIn(conformance::covered_operations()),
                         [](const auto& info) { return info.param; });

}  // namespace
