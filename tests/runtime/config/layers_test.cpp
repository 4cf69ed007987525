#include <gmock/gmock.h>

#include "tests/runtime/config/support.h"

namespace runtime::config::test {
namespace {

using testing::ElementsAre;
using testing::Pair;
using testing::UnorderedElementsAre;

// Reads the first of the layers in `text`.
Layer layer(const std::string& text) {
  return read(kDataset + kTraining + "model = { input = [4, 8, 8], layers = [" + text + "] }\n")
      .model.layers.at(0);
}

TEST(Layers, ConvolutionHasAllItsKeysWithDefaults) {
  const Layer conv =
      layer(R"({ type = "conv2d", channels = 20, kernel = 3, activation = "relu" })");
  EXPECT_THAT(conv.integers,
              UnorderedElementsAre(Pair("channels", 20), Pair("kernel_h", 3), Pair("kernel_w", 3),
                                   Pair("stride_h", 1), Pair("stride_w", 1), Pair("padding_h", 0),
                                   Pair("padding_w", 0), Pair("dilation_h", 1),
                                   Pair("dilation_w", 1), Pair("groups", 1), Pair("bias", 1)));
  EXPECT_EQ(conv.activation, "relu");
  EXPECT_TRUE(conv.numbers.empty());
  EXPECT_THAT(conv.strings, UnorderedElementsAre(Pair("shard", "auto")));
  EXPECT_FALSE(conv.init.has_value());
}

TEST(Layers, SamePaddingIsAString) {
  const Layer conv =
      layer(R"({ type = "conv2d", channels = 4, kernel = [3, 5], padding = "same" })");
  EXPECT_EQ(conv.strings.at("padding"), "same");
  EXPECT_FALSE(conv.integers.contains("padding_h"));
  EXPECT_EQ(conv.integers.at("kernel_w"), 5);
}

TEST(Layers, PoolingStepsByItsKernelUnlessTold) {
  EXPECT_EQ(layer(R"({ type = "max_pool2d", kernel = [2, 3] })").integers.at("stride_w"), 3);
  EXPECT_EQ(layer(R"({ type = "avg_pool2d", kernel = 3, stride = 1 })").integers.at("stride_h"), 1);
}

TEST(Layers, NumbersAndNestedListsArrive) {
  const Layer residual = layer(R"({ type = "residual", repeat = 2, activation = "tanh", layers = [
      { type = "batch_norm", momentum = 1 }, { type = "dropout" }], shortcut = [
      { type = "conv2d", channels = 4, kernel = 1, l2 = 1, init = "kaiming_normal" }] })");
  EXPECT_EQ(residual.repeat, 2);
  ASSERT_EQ(residual.layers.size(), 2u);
  EXPECT_EQ(residual.layers[0].numbers.at("momentum"), 1.0);
  EXPECT_EQ(residual.layers[0].numbers.at("eps"), 1e-5);
  EXPECT_EQ(residual.layers[1].numbers.at("probability"), 0.5);
  EXPECT_EQ(residual.shortcut.at(0).l2, 1.0);
  EXPECT_EQ(residual.shortcut.at(0).init, (Init{"kaiming_normal", 0}));
}

TEST(Layers, StringsArriveAndAStageOnlyIfGiven) {
  const Layer linear =
      layer(R"({ type = "linear", features = 2, tie = "wte", activation = "relu" })");
  EXPECT_THAT(linear.strings, UnorderedElementsAre(Pair("tie", "wte"), Pair("shard", "auto"),
                                                   Pair("file_layout", "out_in")));
  EXPECT_EQ(linear.activation, "relu");
  EXPECT_THAT(layer(R"({ type = "attention", heads = 2 })").integers,
              UnorderedElementsAre(Pair("heads", 2), Pair("causal", 0)));
}

TEST(Layers, KnowWhereTheyWereWritten) {
  const Config config = read(kWhole.substr(0, kDataset.size()) + kTraining +
                             "[model]\ninput = [3]\n[[model.layers]]\ntype = \"relu\"\n"
                             "[[model.layers]]\ntype = \"tanh\"\n");
  EXPECT_EQ(config.model.layers.at(0).location.text(), "test.toml:5:1");
  EXPECT_EQ(config.model.layers.at(1).location.line, 7);
}

}  // namespace
}  // namespace runtime::config::test
