// Checks which models can extend a text, and that a token has the parameters of a window.
#include "runtime/model/key_value_cache.h"

#include <gtest/gtest.h>

#include "runtime/model/layer_types.h"
#include "runtime/model/network.h"
#include "tests/runtime/support/devices.h"

namespace runtime::model {
namespace {

using graph::Dims;

Model model_of_layers(const std::string& layers, const std::string& input = "[4]") {
  return model_from_config(test::parse("dataset.name = \"synthetic\"\ndataset.samples = 4\n"
                                       "dataset.classes = 5\ntraining.global_batch_size = 4\n"
                                       "[model]\ninput = " +
                                       input + "\nlayers = [" + layers + "]")
                               .model);
}

const std::string kEmbedding = "{ type = \"embedding\", vocabulary = 5, features = 6 },";
const std::string kAttention =
    "{ type = \"linear\", features = 18 }, { type = \"attention\", heads = 2, causal = true },";

TEST(CanExtend, ModelsWhoseTokensSeeOnlyThoseBefore) {
  EXPECT_TRUE(can_extend(model_of_layers(kEmbedding)));
  EXPECT_TRUE(can_extend(model_of_layers(kEmbedding + kAttention + kAttention)));
  EXPECT_TRUE(can_extend(model_of_layers(
      "{ type = \"block\", layers = [" + kEmbedding + "] }," +
      "{ type = \"residual\", layers = [ { type = \"layer_norm\" }," + kAttention + "] }")));
  for (const char* preset : {"gpt_char", "gpt_char_small", "gpt2"}) {
    EXPECT_TRUE(can_extend(
        model_from_config(test::parse("model.preset = \"" + std::string(preset) +
                                      "\"\ndataset.name = \"synthetic\"\ndataset.samples = 4\n"
                                      "dataset.classes = 5\ntraining.global_batch_size = 4\n")
                              .model)))
        << preset;
  }
}

TEST(CanExtend, NotModelsWhoseTokensSeeLaterOnesOrIds) {
  const std::string linear = "{ type = \"linear\", features = 6 },";
  EXPECT_FALSE(can_extend(model_of_layers(linear)));
  EXPECT_FALSE(can_extend(model_of_layers(kEmbedding + "{ type = \"flatten\" }")));
  EXPECT_FALSE(can_extend(model_of_layers(kEmbedding + "{ type = \"global_avg_pool\" }")));
  EXPECT_FALSE(can_extend(model_of_layers(
      kEmbedding + "{ type = \"linear\", features = 18 }, { type = \"attention\", heads = 2 }")));
  EXPECT_FALSE(can_extend(
      model_of_layers("{ type = \"block\", repeat = 2, layers = [" + kEmbedding + "] }")));
  EXPECT_FALSE(
      can_extend(model_of_layers("{ type = \"residual\", layers = [" + kEmbedding + "] }")));
  EXPECT_FALSE(
      can_extend(model_of_layers("{ type = \"conv2d\", channels = 2, kernel = 1 }", "[1, 4, 4]")));
}

// Nothing reads the result of a head where a text is continued, but its weights have to be those of
// training.
TEST(CanExtend, HeadsWithoutWeightsForEachToken) {
  const auto with = [](const std::string& layers) {
    return model_of_layers(kEmbedding + "{ type = \"auxiliary_head\", target = \"t\", layers = [" +
                           layers + "{ type = \"linear\", features = 2 } ] }, " + kAttention);
  };
  EXPECT_TRUE(can_extend(with("")));
  EXPECT_TRUE(can_extend(with("{ type = \"global_avg_pool\" },")));
  EXPECT_TRUE(can_extend(with("{ type = \"first_token\" },")));
  EXPECT_FALSE(can_extend(with("{ type = \"flatten\" },")));
  EXPECT_FALSE(can_extend(with(kAttention)));
}

TEST(KeyValueCache, OneTokenHasTheParametersAndTheCacheOfAWindow) {
  const Model m = model_of_layers(kEmbedding + "{ type = \"position_embedding\" }," + kAttention);
  NetworkOptions options;
  options.training = false;
  options.cache = CacheUse::kFill;
  const Network window = build_network(m, options);
  options.cache = CacheUse::kExtend;
  const Network token = build_network(m, options);

  EXPECT_EQ(window.graph.value(window.output).dims, (Dims{1, 4, 6}));
  EXPECT_EQ(token.graph.value(token.output).dims, (Dims{1, 1, 6}));
  EXPECT_EQ(token.graph.value(token.features).dims, (Dims{1, 1}));
  EXPECT_EQ(token.graph.value(token.cache.position).dims, (Dims{1, 1}));
  EXPECT_EQ(token.graph.value(token.cache.masks.at(0).value).dims, (Dims{1, 5}));
  EXPECT_EQ(window.cache.position, graph::kNone);
  ASSERT_EQ(window.cache.tensors.size(), 2u);
  ASSERT_EQ(token.cache.tensors.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const graph::Value& of_window = window.graph.value(window.cache.tensors[i]);
    const graph::Value& of_token = token.graph.value(token.cache.tensors[i]);
    EXPECT_EQ(of_window.name, of_token.name + ".window");
    EXPECT_EQ(of_window.dims, (Dims{4, 6}));
    EXPECT_EQ(of_token.dims, (Dims{5, 6}));
  }
  ASSERT_EQ(window.parameters.size(), token.parameters.size());
  for (size_t i = 0; i < token.parameters.size(); ++i) {
    EXPECT_EQ(window.parameters[i].name, token.parameters[i].name);
    EXPECT_EQ(window.parameters[i].file_dims, token.parameters[i].file_dims);
  }
}

}  // namespace
}  // namespace runtime::model
