// Losses whose logits and gradients have padded rows (backends/gpu/row_layout.h), and copies
// between these and the canonical layout. The conformance checks ask for no layout that a plugin
// does not list, and the plugin lists this one for products only.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "plugins/conformance/conformance.h"
#include "plugins/conformance/execution.h"
#include "plugins/conformance/variants.h"
#include "rt/operations.h"
#include "rt/sdk/foreign_layout.h"
#include "rt/sdk/operation.h"

namespace {

namespace conformance = plugins::conformance;
namespace host = plugins::host;
using conformance::Bytes;
using conformance::Case;

// RUNTIME_TEST_PLUGINS names the folder of the plugins, for a build that was moved.
std::shared_ptr<host::Plugin> load(const std::filesystem::path& built) {
  const char* const folder = std::getenv("RUNTIME_TEST_PLUGINS");
  return host::Plugin::load(folder == nullptr ? built : folder / built.filename(), {});
}

std::shared_ptr<host::Device> open(const std::filesystem::path& built) {
  return host::Device::open(load(built), 0, {});
}

// Why the plugin cannot be tested on this machine; empty if it can.
std::string unusable() {
  const host::DeviceInfo found = host::list_devices(*load(GPU_PLUGIN)).at(0);
  return found.usable() ? "" : found.properties.unusable_reason;
}

// The operation with its logits, and the operands of the same dims, in rows of `length` elements.
host::Operation in_rows(host::Operation op, uint32_t length) {
  const rt_tensor_desc logits = op.inputs[0];
  op.inputs[0].layout = rt::sdk::row_layout(length);
  for (rt_tensor_desc& y : op.outputs) {
    if (rt::sdk::same_dims(y, logits)) y.layout = rt::sdk::row_layout(length);
  }
  return op;
}

uint32_t width_of(const host::Operation& op) {
  return static_cast<uint32_t>(op.inputs[0].dims[op.inputs[0].rank - 1]);
}

class RowLayout : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (const std::string reason = unusable(); !reason.empty()) GTEST_SKIP() << reason;
    device_ = open(GPU_PLUGIN);
    reference_ = open(REFERENCE_PLUGIN);
  }

  // Runs the case in rows of `length`, in every way that the plan offers, and compares it with the
  // reference. What padding holds at first may not matter.
  void check(const Case& c, uint32_t length) {
    SCOPED_TRACE(c.name + " in rows of " + std::to_string(length));
    const host::Operation op = in_rows(c.operation, length);
    const host::Support support = device_->query(op);
    ASSERT_EQ(support.candidates.size(), 1u) << support.reason;
    EXPECT_EQ(support.candidates[0].input_layouts[0], rt::sdk::row_layout(length));
    EXPECT_GT(support.candidates[0].estimated_ns, 0);
    std::vector<Bytes> inputs;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      inputs.push_back(conformance::make_values(op.inputs[i], c.inputs[i]));
    }
    const auto expected = conformance::Execution(*reference_, c.operation, nullptr).run(inputs);
    conformance::Execution execution(*device_, op, nullptr);
    std::vector<conformance::InPlace> ways = conformance::in_place_pairs(execution);
    ways.emplace_back();
    for (const conformance::InPlace& way : ways) {
      for (const int fresh : {conformance::kFreshNan, 0}) {
        const auto actual = execution.run(inputs, way, fresh);
        for (size_t j = 0; j < actual.size(); ++j) {
          EXPECT_LE(conformance::relative_error(op.outputs[j].dtype, actual[j], expected[j]),
                    conformance::allowed_error(c, op.outputs[j], support));
        }
      }
    }
  }

  std::shared_ptr<host::Device> device_, reference_;
};

TEST_P(RowLayout, GivesTheSameResults) {
  int cases = 0;
  for (const Case& c : conformance::cases_of(GetParam())) {
    if (rt::sdk::element_count(c.operation.inputs[0]) == 0) continue;
    ++cases;
    const uint32_t width = width_of(c.operation);
    check(c, (width + 63) / 64 * 64);
    check(c, width + 3);  // rows that are not aligned
  }
  EXPECT_GT(cases, 20);
}

TEST_P(RowLayout, OtherLayoutsAreRefused) {
  const host::Operation plain = conformance::cases_of(GetParam()).front().operation;
  host::Operation labels = plain;
  labels.inputs[1].layout = rt::sdk::row_layout(64);
  EXPECT_EQ(device_->query(labels).level, RT_SUPPORT_REFUSED);
  host::Operation differing = in_rows(plain, 64);
  for (rt_tensor_desc& y : differing.outputs) y.layout = RT_LAYOUT_CANONICAL;
  const bool has_gradient = in_rows(plain, 64).outputs.back().layout != RT_LAYOUT_CANONICAL;
  EXPECT_EQ(device_->query(differing).level == RT_SUPPORT_REFUSED, has_gradient);
}

INSTANTIATE_TEST_SUITE_P(Losses, RowLayout,
                         testing::Values(RT_OP_CROSS_ENTROPY, RT_OP_CROSS_ENTROPY_BACKWARD,
                                         RT_OP_CROSS_ENTROPY_WITH_GRADIENT, RT_OP_CORRECT_COUNT),
                         [](const auto& info) { return std::string(info.param); });

TEST(RowLayoutOfTheDevice, HasASizeAndAName) {
  if (const std::string reason = unusable(); !reason.empty()) GTEST_SKIP() << reason;
  const auto device = open(GPU_PLUGIN);
  rt_tensor_desc t = host::make_tensor_desc(RT_BFLOAT16, {2, 3, 17}, rt::sdk::row_layout(64));
  EXPECT_EQ(device->layout_bytes(t), 2u * 3 * 64 * 2);
  EXPECT_EQ(device->layout_name(t), "rows of 64");
  t.layout = rt::sdk::row_layout(16);
  EXPECT_THROW(device->layout_bytes(t), std::exception);
}

}  // namespace
