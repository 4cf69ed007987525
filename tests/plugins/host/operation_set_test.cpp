// The operations that a plugin brings: copies, checks, the way through the probe, and shapes.
#include "plugins/host/operation_set.h"

#include <cmath>

#include "plugins/host/description.h"
#include "plugins/host/limits.h"
#include "plugins/host/registry.h"
#include "tests/plugins/host/support.h"

namespace plugins::host::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A table with one spec, which a test changes.
struct OneSpec {
  static const rt_operation_spec* const* specs(void* self, uint32_t* count) {
    auto* one = static_cast<OneSpec*>(self);
    *count = one->count;
    return one->count == 0 ? nullptr : one->pointers;
  }
  std::vector<OperationSpec> copy() {
    return copy_operations({sizeof(rt_operations_api), RT_OPERATIONS_API_VERSION, specs}, this,
                           "plugin test");
  }

  rt_option_spec attribute{sizeof(rt_option_spec), RT_OPTION_NUMBER, "beta", "1", "a number"};
  rt_parameter_spec parameter{sizeof(rt_parameter_spec), RT_INIT_CONSTANT, "weight", "a scale", 2};
  const rt_option_spec* attributes[2] = {&attribute, &attribute};
  const rt_parameter_spec* parameters[1] = {&parameter};
  rt_operation_spec spec = [this] {
    rt_operation_spec s{};
    s.size = sizeof(s);
    s.kind = RT_OPERATION_LAYER;
    s.name = "layer";
    s.signature = "x weight {beta} -> y";
    s.formula = "y = beta *\n\tx * weight";
    s.description = "A layer.";
    s.attributes = attributes;
    s.parameters = parameters;
    s.attribute_count = s.parameter_count = 1;
    return s;
  }();
  const rt_operation_spec* pointers[2] = {&spec, &spec};
  uint32_t count = 1;
};

TEST(OperationSet, IsCopiedWithLinesAsSpaces) {
  OneSpec one;
  const std::vector<OperationSpec> specs = one.copy();
  ASSERT_EQ(specs.size(), 1u);
  EXPECT_EQ(specs[0].name, "layer");
  EXPECT_EQ(specs[0].formula, "y = beta *  x * weight");
  EXPECT_EQ(specs[0].gradient, "");
  ASSERT_EQ(specs[0].attributes.size(), 1u);
  EXPECT_EQ(specs[0].attributes[0].default_value, "1");
  ASSERT_EQ(specs[0].parameters.size(), 1u);
  EXPECT_EQ(specs[0].parameters[0].value, 2);
  one.count = 0;
  EXPECT_TRUE(one.copy().empty());
}

template <typename Change>
std::string refusal(Change change) {
  OneSpec one;
  change(one);
  try {
    one.copy();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

rt_status any_shape(void*, const rt_op_desc*, rt_tensor_desc*, rt_error*) { return RT_OK; }

TEST(OperationSet, WhatCannotBeIsRefused) {
  const std::string long_text(9000, 'x');
  using Change = std::function<void(OneSpec&)>;
  const std::vector<std::pair<Change, const char*>> changes = {
      {[](OneSpec& o) { o.spec.size = 80; }, "shorter than 88"},
      {[](OneSpec& o) { o.pointers[0] = nullptr; }, "is NULL"},
      {[](OneSpec& o) { o.spec.name = nullptr; }, "name of an operation: is empty"},
      {[](OneSpec& o) { o.spec.name = "Two Words"; }, "its name is 'Two Words'"},
      {[](OneSpec& o) { o.spec.name = "relu_backward"; }, "ends with _backward"},
      {[](OneSpec& o) { o.spec.name = "own_update"; }, "ends with _update"},
      {[](OneSpec& o) { o.spec.kind = 7; }, "unknown kind 7"},
      {[](OneSpec& o) { o.spec.signature = ""; }, "signature: is empty"},
      {[](OneSpec& o) { o.spec.description = nullptr; }, "description: is empty"},
      {[&](OneSpec& o) { o.spec.formula = long_text.c_str(); }, "more than 8191 bytes"},
      {[](OneSpec& o) { o.spec.formula = nullptr; }, "exactly one of `formula` and `shape`"},
      {[](OneSpec& o) { o.spec.shape = any_shape; }, "exactly one of `formula` and `shape`"},
      {[](OneSpec& o) { o.spec.attribute_count = 0xFFFFFFFF; }, "from 0 to 32"},
      {[](OneSpec& o) { o.spec.parameter_count = 8; }, "from 0 to 7"},
      {[](OneSpec& o) { o.spec.attributes = nullptr; }, "attributes: are NULL"},
      {[](OneSpec& o) { o.spec.attribute_count = 2; }, "two operands called 'beta'"},
      {[](OneSpec& o) { o.attribute.key = "weight"; }, "two operands called 'weight'"},
      {[](OneSpec& o) { o.attribute.key = "Beta"; }, "its name is 'Beta'"},
      {[](OneSpec& o) { o.attribute.type = RT_OPTION_STRING; }, "no boolean, integer or number"},
      {[](OneSpec& o) { o.parameter.size = 24; }, "shorter than 32"},
      {[](OneSpec& o) { o.parameter.init = 9; }, "unknown init 9"},
      {[](OneSpec& o) { o.parameter.value = NAN; }, "begins with no number"},
      {[](OneSpec& o) { o.spec.flags = RT_OPERATION_HAS_BACKWARD; }, "beside a formula"},
      {[](OneSpec& o) { o.spec.kind = RT_OPERATION_OPTIMIZER; }, "is an optimizer"},
      {[](OneSpec& o) { o.count = 2; }, "two operations called 'layer'"},
      {[](OneSpec& o) { o.count = 257; }, "from 0 to 256"},
  };
  for (const auto& [change, words] : changes)
    EXPECT_THAT(refusal(change), AllOf(HasSubstr("plugin test"), HasSubstr(words)));
}

// A plugin of a later minor version has longer structs; what this host knows of them counts.
TEST(OperationSet, LongerSpecsAreTakenAsFarAsTheyAreKnown) {
  struct Longer {
    rt_operation_spec spec;
    uint64_t appended;
  };
  OneSpec one;
  Longer longer{one.spec, 77};
  longer.spec.size = sizeof(longer);
  one.pointers[0] = &longer.spec;
  struct {
    rt_parameter_spec spec;
    uint64_t appended;
  } parameter{one.parameter, 77};
  parameter.spec.size = sizeof(parameter);
  one.parameters[0] = &parameter.spec;
  const std::vector<OperationSpec> specs = one.copy();
  ASSERT_EQ(specs.size(), 1u);
  EXPECT_EQ(specs[0].name, "layer");
  EXPECT_EQ(specs[0].parameters[0].name, "weight");
}

TEST(OperationSet, OfAPluginWithoutADeviceComesThroughTheProbe) {
  SearchPath path;
  path.configured = {fixture("operation_set")};
  path.probe = PLUGIN_PROBE;
  const Registry registry(path, {});
  const PluginDescription& plugin = registry.require("extra");
  EXPECT_EQ(plugin.interfaces, std::vector<std::string>{RT_INTERFACE_OPERATIONS});
  std::vector<std::string> names;
  for (const OperationSpec& spec : plugin.operations) names.push_back(spec.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"swish", "rms_norm", "gated_linear", "adabelief", "signum"}));
  EXPECT_EQ(plugin.operations[1].parameters[0].name, "weight");
  EXPECT_EQ(plugin.operations[3].attributes.size(), 4u);
}

TEST(OperationSet, AFaultRejectsThePlugin) {
  SearchPath path;
  path.configured = {fixture("misshaped")};
  path.probe = PLUGIN_PROBE;
  const Registry registry(path, {});
  ASSERT_EQ(registry.rejections().size(), 1u);
  EXPECT_THAT(registry.rejections()[0].reason, HasSubstr("its name is 'Halve!'"));
}

// Any byte of a description may be another one: it is refused, or it is another description.
TEST(OperationSet, ADescriptionOfOtherBytesIsRefusedOrRead) {
  const auto plugin = Plugin::load(fixture("operation_set"), {});
  const std::string bytes = encode(describe(plugin, false, [](const char*) {}));
  int refused = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string other = bytes;
    other[i] = static_cast<char>(other[i] ^ 0xff);
    try {
      decode(other);
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_EQ(decode(bytes).operations.size(), 5u);
}

Operation halve(int64_t by) {
  Operation op;
  op.name = "shaped.halve";
  op.inputs = {make_tensor_desc(RT_FLOAT32, {5, 12})};
  op.attributes = {{"by", by}};
  return op;
}

TEST(OperationSet, ShapesAreAskedOfThePlugin) {
  const auto plugin = Plugin::load(fixture("shaped"), {});
  EXPECT_EQ(plugin->output_dims("halve", halve(3)), (std::vector<int64_t>{5, 4}));
  const auto refusal = [&](const char* name) -> std::string {
    try {
      plugin->output_dims(name, halve(2));
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(refusal("lies"), HasSubstr("another type than its input's"));
  EXPECT_THAT(refusal("fails"), HasSubstr("three is no multiple of two"));
  EXPECT_THAT(refusal("absent"), HasSubstr("has no function `shape`"));
}

}  // namespace
}  // namespace plugins::host::testing
