// With every level of [device.cpu] isa the plugin computes the results of the reference, and
// reports the level. oneDNN's instruction set can be set once per process, so every check runs in a
// process of its own.
#include "backends/cpu/isa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "plugins/conformance/builder.h"
#include "plugins/conformance/conformance.h"
#include "plugins/conformance/execution.h"
#include "plugins/host/error.h"
#include "rt/operations.h"
#include "tests/backends/cpu/support.h"

namespace tests::cpu {
namespace {

using backends::cpu::Isa;
using testing::HasSubstr;
namespace conformance = plugins::conformance;

std::shared_ptr<host::Device> open_level(const std::string& isa, int threads = 2) {
  return open({threads, {{"isa", isa}}});
}

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const host::Error& e) {
    return e.what();
  }
  return {};
}

// Up to six float32 cases of each operation, spread over its list of cases; all of
// dot_product_attention, whose kernels have more forms than others.
std::vector<conformance::Case> some_cases() {
  std::vector<conformance::Case> chosen;
  for (const std::string& operation : conformance::covered_operations()) {
    std::vector<conformance::Case> cases;
    for (const conformance::Case& c : conformance::cases_of(operation)) {
      if (c.dtype == RT_FLOAT32) cases.push_back(c);
    }
    const bool all = operation.starts_with(RT_OP_DOT_PRODUCT_ATTENTION);
    const size_t step = all ? 1 : cases.size() / 6 + 1;
    for (size_t i = 0; i < cases.size(); i += step) chosen.push_back(cases[i]);
  }
  return chosen;
}

std::string failures_at(const std::string& isa) {
  const auto device = open_level(isa);
  const auto reference = host::Device::open(host::Plugin::load(REFERENCE_PLUGIN, {}), 0);
  const conformance::Summary summary = run_cases(*device, *reference, some_cases());
  return summary.failed > 0 || summary.passed < 100 ? summary.text() : "";
}

// The implementations of a softmax and a convolution whose names claim a wider instruction set than
// `isa`.
std::string wider_names_at(Isa isa) {
  const auto device = open_level(option_name(isa));
  host::Operation softmax;
  softmax.name = RT_OP_SOFTMAX;
  softmax.inputs = softmax.outputs = {tensor({4, 10})};
  const std::string suffix = std::string("native:softmax:") + kernel_suffix(isa);
  std::string wrong;
  for (const host::Operation& op : {softmax, any_layouts(convolution())}) {
    for (const rt_candidate& c : device->query(op).candidates) {
      const std::string name = c.implementation;
      if (op.name == RT_OP_SOFTMAX && name != suffix) wrong += name + " is not " + suffix + "\n";
      const bool avx512 = name.find("avx512") != std::string::npos;
      const bool avx = name.find("avx") != std::string::npos;
      if ((isa < Isa::kAvx512 && avx512) || (isa < Isa::kAvx2 && avx))
        wrong += name + " is wider than " + option_name(isa) + "\n";
    }
  }
  return wrong;
}

// Returns an element of dx that is not exactly 0, although each row is its own mean; empty if there
// is none.
std::string gradient_of_one_feature_at(const std::string& isa) {
  const auto device = open_level(isa);
  const conformance::Dims x = {200, 1}, one = {1};
  conformance::Builder forward(RT_OP_LAYER_NORM, RT_FLOAT32, "");
  forward.in(x).wide_in(one).wide_in(one).out(x).number(RT_ATTR_EPSILON, 1e-5);
  conformance::Builder backward(RT_OP_LAYER_NORM_BACKWARD, RT_FLOAT32, "");
  backward.in(x).in(x).wide_in(one).out(x).wide_out(one).wide_out(one);
  backward.number(RT_ATTR_EPSILON, 1e-5);
  const auto bytes = [](int64_t count, int64_t seed) {
    const Floats values = ramp(count, seed);
    const auto* begin = reinterpret_cast<const std::byte*>(values.data());
    return conformance::Bytes(begin, begin + values.size() * sizeof(float));
  };
  const conformance::Case first = forward.get();
  conformance::Execution before(*device, first.operation, nullptr);
  before.run({bytes(200, 1), bytes(1, 2), bytes(1, 3)});
  host::Operation second = backward.get().operation;
  second.forward = before.plan();
  conformance::Execution execution(*device, second, &before);
  const conformance::Bytes dx = execution.run({bytes(200, 4), bytes(200, 1), bytes(1, 2)})[0];
  for (size_t i = 0; i < 200; ++i) {
    float element = 0;
    std::memcpy(&element, dx.data() + i * sizeof(float), sizeof(float));
    if (element != 0) return "element " + std::to_string(i) + " is " + std::to_string(element);
  }
  return {};
}

class CpuIsa : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (GetParam() > backends::cpu::widest_isa())
      GTEST_SKIP() << "this processor has no " << option_name(GetParam());
  }
};

TEST_P(CpuIsa, ComputesWhatTheReferenceComputes) {
  expect_in_own_process([] { return failures_at(option_name(GetParam())); });
}

TEST_P(CpuIsa, NamesNoWiderImplementation) {
  expect_in_own_process([] { return wider_names_at(GetParam()); });
}

TEST_P(CpuIsa, ALayerNormOfOneFeatureHasNoGradient) {
  expect_in_own_process([] { return gradient_of_one_feature_at(option_name(GetParam())); });
}

INSTANTIATE_TEST_SUITE_P(Levels, CpuIsa, testing::ValuesIn(backends::cpu::kIsas),
                         [](const auto& info) { return std::string(option_name(info.param)); });

TEST(CpuIsaOption, AnUnknownValueIsRefusedWithTheKnownOnes) {
  EXPECT_THAT(message_of([] { open_level("avx3"); }),
              HasSubstr("option 'isa' is 'avx3'; expected native, avx512, avx2 or sse41"));
}

TEST(CpuIsaOption, AValueThatTheProcessorLacksIsRefusedWithTheNearest) {
  for (const Isa isa : backends::cpu::kIsas) {
    if (isa <= backends::cpu::widest_isa()) continue;
    const std::string message = message_of([&] { open_level(option_name(isa)); });
    EXPECT_THAT(message, HasSubstr(std::string("the nearest that it has is '") +
                                   option_name(backends::cpu::widest_isa())));
  }
}

TEST(CpuIsaOption, ASecondDeviceWithAnotherValueIsRefused) {
  expect_in_own_process([]() -> std::string {
    const auto first = open_level("sse41");
    const std::string again = message_of([] { open_level("sse41", 1); });
    if (!again.empty()) return "the same value: " + again;
    if (backends::cpu::widest_isa() == Isa::kGeneric) return {};
    for (const char* other : {"avx2", "native"}) {
      const std::string message = message_of([&] { open_level(other); });
      const std::string expected = std::string("isa = \"") + other +
                                   "\": oneDNN works with sse41 in this process, and its "
                                   "instruction set can be set only once in a process";
      if (message.find(expected) == std::string::npos) return other + (": '" + message + "'");
    }
    return {};
  });
}

}  // namespace
}  // namespace tests::cpu
