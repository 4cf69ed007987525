// Parameters of a plugin's layer, and whose fault it is if they have no dims.
#include "runtime/model/open_layer.h"

#include <gtest/gtest.h>

#include "runtime/error.h"
#include "runtime/model/layer_types.h"
#include "tests/runtime/support/devices.h"

namespace runtime::model {
namespace {

config::OpenOperation operation(const std::string& signature, const std::string& formula,
                                const std::vector<std::string>& parameters = {},
                                const std::vector<std::string>& attributes = {}) {
  config::OpenOperation made;
  made.name = "test.layer";
  made.signature = signature;
  made.formula = formula;
  for (const std::string& name : parameters) made.parameters.push_back({name, true, 1});
  for (const std::string& name : attributes)
    made.attributes.push_back({.name = name, .type = config::Type::kInteger});
  return made;
}

const graph::Dims kInput = {8, 5, 6};

TEST(OpenLayer, ParametersHaveTheDimsOfTheirNames) {
  const auto op = operation("x[N,T,C] w[features,C] b[1,T,features] s[1] {features} -> y", "y = x",
                            {"w", "b", "s"}, {"features"});
  const config::AttributeValues values = {{"features", int64_t{3}}};
  const OpenLayer layer(op, values, kInput, "l");
  ASSERT_EQ(layer.parameters().size(), 3u);
  EXPECT_EQ(layer.parameters()[0].dims, (graph::Dims{3, 6}));
  EXPECT_EQ(layer.parameters()[1].dims, (graph::Dims{5, 3}));
  EXPECT_EQ(layer.parameters()[2].dims, (graph::Dims{1}));
}

template <typename E>
std::string fault(const config::OpenOperation& op, const config::AttributeValues& values = {}) {
  return test::message_of<E>([&] { OpenLayer(op, values, kInput, "l").check_output({8, 2}); });
}

TEST(OpenLayer, AnInputOfAnotherRankIsTheConfigurationsFault) {
  const std::string message = fault<ConfigurationError>(operation("x[N,D] -> y", "y = x"));
  EXPECT_EQ(message.find("layer 'l': test.layer sees its input as [N,D], its input is [8, 5, 6]"),
            0u)
      << message;
}

TEST(OpenLayer, EverythingElseIsThePlugins) {
  const auto has = [](const config::OpenOperation& op, const char* words,
                      const config::AttributeValues& values = {}) {
    const std::string message = fault<DeviceError>(op, values);
    EXPECT_NE(message.find("plugin 'test'"), std::string::npos) << message;
    EXPECT_NE(message.find(words), std::string::npos) << message;
  };
  has(operation("x[R*,D] w[E] -> y", "y = x", {"w"}), "gives no size of 'E'");
  has(operation("x[R*,D] w[R] -> y", "y = x", {"w"}), "depend on the batch, by 'R'");
  has(operation("x[R*,D] w[D] -> y", "y = x"), "'w', which is no parameter");
  has(operation("x[R*,D] -> y", "y = x", {"w"}), "but 1 parameters");
  has(operation("x[R*,D] {a} -> y", "y = x"), "has 'a' in braces, no attribute");
  has(operation("x[A^axis,D*] -> y", "y = x"), "has 'axis' behind ^");
}

TEST(OpenLayer, TheOutputHasARowForEachSample) {
  const auto op = operation("x -> y", "y = x");
  const OpenLayer layer(op, {}, kInput, "l");
  layer.check_output({8});
  EXPECT_NE(test::message_of<DeviceError>([&] {
              layer.check_output({4, 12});
            }).find("gives an output [4, 12] for an input [8, 5, 6]"),
            std::string::npos);
}

TEST(OpenLayerTypes, AnAttributeMayNotHaveTheNameOfACommonKey) {
  for (const char* name : {"activation", "repeat", "name", "stage"}) {
    const auto op =
        std::make_shared<const config::OpenOperation>(operation("x -> y", "y = x", {}, {name}));
    EXPECT_NE(test::message_of<DeviceError>([&] { open_layer_types({op}); }).find(name),
              std::string::npos)
        << name;
  }
}

}  // namespace
}  // namespace runtime::model
