// Checks that every key of a layer arrives and survives writing and reading.
#include "runtime/model/layer_types.h"

#include <gmock/gmock.h>

#include "runtime/config/declare.h"
#include "runtime/error.h"
#include "runtime/model/declare_layer.h"
#include "runtime/model/network.h"
#include "tests/runtime/support/devices.h"

namespace runtime::model {
namespace {

// A configuration with these layers, and the rest that every configuration needs.
config::Config configuration(const std::string& layers) {
  return test::parse(
      "dataset.name = \"fashion_mnist\"\ntraining.global_batch_size = 8\n"
      "model = { input = [4, 8, 8], layers = [" +
      layers + "] }\n");
}

// The first of the layers in `text`.
Layer layer(const std::string& text) {
  return model_from_config(configuration(text).model).layers.at(0);
}

template <class Kind>
Kind kind(const std::string& text) {
  return std::get<Kind>(layer(text).kind);
}

TEST(LayerTypes, AConvolutionHasTheDefaultsOfItsStruct) {
  const Layer made =
      layer(R"({ type = "conv2d", channels = 20, kernel = 3, activation = "relu" })");
  const auto& conv = std::get<Conv2d>(made.kind);
  EXPECT_EQ(conv.channels, 20);
  EXPECT_EQ(conv.kernel_h, 3);
  EXPECT_EQ(conv.kernel_w, 3);
  EXPECT_EQ(conv.convolution.stride_h, 1);
  EXPECT_EQ(conv.convolution.padding.top, 0);
  EXPECT_EQ(conv.convolution.dilation_w, 1);
  EXPECT_EQ(conv.convolution.groups, 1);
  EXPECT_FALSE(conv.same_padding);
  EXPECT_TRUE(conv.bias);
  EXPECT_EQ(made.activation, RT_ACTIVATION_RELU);
  EXPECT_EQ(made.shard, "auto");
  EXPECT_EQ(made.stage, -1);
  EXPECT_EQ(made.repeat, 1);
  EXPECT_FALSE(made.init.has_value());
}

TEST(LayerTypes, EveryKeyOfAConvolutionArrives) {
  const auto conv = kind<Conv2d>(
      R"({ type = "conv2d", channels = 4, kernel = [3, 5], stride = [2, 1], padding = [1, 2], dilation = 2, groups = 2, bias = false })");
  EXPECT_EQ(conv.kernel_w, 5);
  EXPECT_EQ(conv.convolution.stride_h, 2);
  EXPECT_EQ(conv.convolution.stride_w, 1);
  const graph::Padding& padding = conv.convolution.padding;
  EXPECT_EQ(std::vector({padding.top, padding.bottom, padding.left, padding.right}),
            (std::vector<int64_t>{1, 1, 2, 2}));
  EXPECT_EQ(conv.convolution.dilation_h, 2);
  EXPECT_EQ(conv.convolution.dilation_w, 2);
  EXPECT_EQ(conv.convolution.groups, 2);
  EXPECT_FALSE(conv.bias);
  EXPECT_TRUE(kind<Conv2d>(R"({ type = "conv2d", channels = 4, kernel = 3, padding = "same" })")
                  .same_padding);
}

TEST(LayerTypes, PoolingStepsByItsKernelUnlessTold) {
  const auto max = kind<Pool2d>(R"({ type = "max_pool2d", kernel = [2, 3] })");
  EXPECT_TRUE(max.max);
  EXPECT_EQ(max.pooling.stride_h, 2);
  EXPECT_EQ(max.pooling.stride_w, 3);
  const auto mean = kind<Pool2d>(
      R"({ type = "avg_pool2d", kernel = 3, stride = 1, padding = 1, count_include_pad = false })");
  EXPECT_FALSE(mean.max);
  EXPECT_EQ(mean.pooling.stride_h, 1);
  EXPECT_EQ(mean.pooling.padding.right, 1);
  EXPECT_FALSE(mean.pooling.count_include_pad);
}

TEST(LayerTypes, NumbersAndNestedListsArrive) {
  const Layer made = layer(R"({ type = "residual", repeat = 2, activation = "tanh", layers = [
      { type = "batch_norm", momentum = 1 }, { type = "dropout" }], shortcut = [
      { type = "conv2d", channels = 4, kernel = 1, l2 = 1, init = "kaiming_normal" }] })");
  EXPECT_EQ(made.repeat, 2);
  EXPECT_EQ(made.activation, RT_ACTIVATION_TANH);
  const auto& residual = std::get<Residual>(made.kind);
  EXPECT_TRUE(residual.prefix);
  ASSERT_EQ(residual.layers.size(), 2u);
  EXPECT_EQ(std::get<BatchNorm>(residual.layers[0].kind).momentum, 1.0);
  EXPECT_EQ(std::get<BatchNorm>(residual.layers[0].kind).epsilon, 1e-5);
  EXPECT_EQ(std::get<Dropout>(residual.layers[1].kind).probability, 0.5);
  EXPECT_EQ(residual.shortcut.at(0).l2, 1.0);
  EXPECT_EQ(residual.shortcut.at(0).init, (Init{"kaiming_normal", 0}));
}

TEST(LayerTypes, StringsArriveAndAStageIfGiven) {
  const Layer made = layer(
      R"({ type = "linear", features = 2, tie = "wte", activation = "relu", stage = 3, name = "head" })");
  EXPECT_EQ(std::get<Linear>(made.kind).tie, "wte");
  EXPECT_EQ(made.stage, 3);
  EXPECT_EQ(made.name, "head");
  const Layer gpt2 = layer(
      R"({ type = "linear", features = 2, file_layout = "in_out", shard = "row", init = { normal = 0.02 } })");
  EXPECT_TRUE(std::get<Linear>(gpt2.kind).file_in_out);
  EXPECT_EQ(gpt2.shard, "row");
  EXPECT_EQ(gpt2.init, (Init{"normal", 0.02}));
  EXPECT_FALSE(kind<Attention>(R"({ type = "attention", heads = 2 })").options.causal);
}

TEST(LayerTypes, FunctionsAreLayers) {
  EXPECT_EQ(kind<Activation>(R"({ type = "gelu_tanh" })").function, RT_ACTIVATION_GELU_TANH);
  EXPECT_EQ(kind<Activation>(R"({ type = "sigmoid" })").function, RT_ACTIVATION_SIGMOID);
}

TEST(LayerTypes, KnowWhereTheyWereWritten) {
  const config::Config config = test::parse(
      "dataset.name = \"fashion_mnist\"\ntraining.global_batch_size = 8\n"
      "[model]\ninput = [3]\n[[model.layers]]\ntype = \"relu\"\n"
      "[[model.layers]]\ntype = \"tanh\"\n");
  EXPECT_EQ(config.model.layers.at(0).position.text(), "test.toml:5:1");
  EXPECT_EQ(config.model.layers.at(1).position.line, 7);
}

// The network of one layer that is this formula of its input and a weight for each feature.
Network network_of(const std::string& text) {
  const DeclaredLayer scale = formula(
      {.name = "scale",
       .signature = "x[R*,D] weight[D] {factor} -> y[R*,D]",
       .formula = text,
       .documentation = {},
       .attributes = {{.name = "factor", .type = config::Type::kNumber, .default_text = "2.0"}},
       .parameters = {{"weight", true, 1}}});
  EXPECT_EQ(scale.type.name, "scale");
  EXPECT_EQ(scale.type.operation, nullptr) << "it is no plugin's";
  EXPECT_NE(config::find_key(scale.type.keys, "factor"), nullptr);
  EXPECT_NE(config::find_key(scale.type.keys, "repeat"), nullptr);
  return build_network({{3}, {scale.make({})}, {}}, {.batch = 4});
}

TEST(LayerTypes, AFormulaIsAType) {
  const Network made = network_of("y = factor * x * weight");
  ASSERT_EQ(made.parameters.size(), 1u);
  EXPECT_EQ(made.parameters[0].name, "scale1.weight");
  EXPECT_EQ(made.parameters[0].file_dims, graph::Dims{3});
  EXPECT_EQ(made.graph.value(made.output).dims, (graph::Dims{4, 3}));
  EXPECT_THAT(test::message_of<InternalError>([] { network_of("y = x * bias"); }),
              testing::HasSubstr("the formula of core.scale does not know 'bias'"));
}

// The resolved configuration says the same layers.
TEST(LayerTypes, SurviveWritingAndReading) {
  const std::string all = R"({ type = "block", repeat = 2, layers = [
      { type = "conv2d", channels = 4, kernel = [3, 1], padding = "same", l2 = 0.5 },
      { type = "max_pool2d", kernel = 2 }] },
      { type = "linear", features = 5, init = { uniform = 0.1 }, name = "out" })";
  const std::string once = config::to_toml(configuration(all));
  EXPECT_EQ(config::to_toml(test::parse(once)), once);
}

}  // namespace
}  // namespace runtime::model
