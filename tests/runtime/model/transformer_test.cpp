// Features that transformers need: token ids, position embeddings, tied weights, and layer names
// without the name of the container.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"
#include "runtime/graph/autodiff.h"
#include "runtime/model/layer_types.h"
#include "runtime/model/network.h"
#include "tests/runtime/model/parameters.h"
#include "tests/runtime/support/devices.h"
#include "tests/runtime/support/graph_run.h"

namespace runtime::model {
namespace {

using graph::Dims;
using graph::ValueId;
using graph::ValueKind;
using test::GraphRun;
using test::Numbers;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Network float64_network(const std::string& model) {
  NetworkOptions options;
  options.batch = 2;
  options.dtype = RT_FLOAT64;
  return build_network(
      model_from_config(test::parse("dataset.name = \"synthetic\"\ndataset.samples = 4\n"
                                    "dataset.classes = 5\ntraining.global_batch_size = 4\n"
                                    "[model]\n" +
                                    model)
                            .model),
      options);
}

std::string refusal_of(const std::string& model) {
  return test::message_of<ConfigurationError>([&] { float64_network(model); });
}

// Initial values that depend only on the name, so that they are the same in every network.
Numbers initial(const std::string& name, size_t count) {
  return test::random_numbers(count, std::hash<std::string>()(name));
}

Numbers output(Network n, const Numbers& features) {
  const ValueId y = test::add_output(n.graph, n.output, "y");
  GraphRun run(n.graph, test::open_device("reference"));
  for (const Parameter& p : n.parameters)
    run.set(p.value, initial(p.name, graph::element_count(p.view)));
  run.set(n.features, features);
  run.run();
  return run.get(y);
}

TEST(Transformer, PositionsAreTheFirstRowsOfTheTable) {
  const std::string embedding =
      "input = [3]\nlayers = [ { type = \"embedding\", name = \"e\", vocabulary = 5, features = 4 "
      "}";
  const Numbers tokens = {0, 4, 1, 2, 2, 3};
  const Numbers plain = output(float64_network(embedding + " ]"), tokens);
  for (const int length : {0, 3, 7}) {
    const Network n =
        float64_network(embedding + ", { type = \"position_embedding\", name = \"p\", length = " +
                        std::to_string(length) + " } ]");
    const int64_t rows = length == 0 ? 3 : length;
    EXPECT_EQ(parameter(n, "p.weight").file_dims, (Dims{rows, 4}));
    EXPECT_EQ(parameter(n, "p.weight").init.kind, "normal");
    const Numbers table = initial("p.weight", rows * 4), sums = output(n, tokens);
    ASSERT_EQ(sums.size(), 24u);
    for (size_t i = 0; i < sums.size(); ++i) EXPECT_EQ(sums[i], plain[i] + table[i % 12]);
  }
}

TEST(Transformer, SinusoidsOfThePlaceAreAdded) {
  const std::string embedding =
      "input = [3]\nlayers = [ { type = \"embedding\", name = \"e\", vocabulary = 5, features = 4 "
      "}";
  const Numbers tokens = {0, 4, 1, 2, 2, 3};
  const Numbers plain = output(float64_network(embedding + " ]"), tokens);
  const Network network =
      float64_network(embedding + ", { type = \"sinusoidal_position\", base = 100 } ]");
  EXPECT_EQ(network.parameters.size(), 1u);
  const Numbers sums = output(network, tokens);
  ASSERT_EQ(sums.size(), 24u);
  for (size_t i = 0; i < sums.size(); ++i) {
    const double angle = static_cast<double>(i % 12 / 4) * (i % 4 < 2 ? 1 : 0.1);
    EXPECT_NEAR(sums[i], plain[i] + (i % 2 == 0 ? std::sin(angle) : std::cos(angle)), 1e-15);
  }
}

TEST(Transformer, TooFewPositions) {
  EXPECT_THAT(
      refusal_of("input = [6]\nlayers = [ { type = \"embedding\", vocabulary = 5, features = 4 "
                 "}, { type = \"position_embedding\", length = 5 } ]"),
      AllOf(HasSubstr("layer 'position1'"), HasSubstr("length 5 for 6 tokens")));
  EXPECT_THAT(refusal_of("input = [6]\nlayers = [ { type = \"position_embedding\" } ]"),
              AllOf(HasSubstr("needs tokens"), HasSubstr("[2, 6]")));
}

TEST(Transformer, PixelsBecomeTokensRowByRow) {
  const std::string image = "input = [2, 3, 4]\nlayers = [ { type = \"image_to_tokens\" }";
  const Numbers pixels = test::random_numbers(48, 1);
  const Network tokens = float64_network(image + " ]");
  EXPECT_EQ(tokens.graph.value(tokens.output).dims, (Dims{2, 12, 2}));
  EXPECT_EQ(output(tokens, pixels), pixels);
  // The mean over tokens equals the mean over pixels.
  EXPECT_EQ(
      output(float64_network(image + ", { type = \"global_avg_pool\" } ]"), pixels),
      output(float64_network("input = [2, 3, 4]\nlayers = [ { type = \"global_avg_pool\" } ]"),
             pixels));
  EXPECT_THAT(refusal_of("input = [6]\nlayers = [ { type = \"image_to_tokens\" } ]"),
              HasSubstr("needs an image"));
}

TEST(Transformer, AttentionIsTheOperation) {
  const Network n = float64_network(
      "input = [6, 1, 3]\nlayers = [ { type = \"image_to_tokens\" }, { type = \"attention\", heads "
      "= "
      "2, causal = true } ]");
  EXPECT_EQ(n.graph.value(n.output).dims, (Dims{2, 3, 2}));
  const graph::Node& node = n.graph.nodes.back();
  EXPECT_EQ(node.op, RT_OP_ATTENTION);
  EXPECT_EQ(graph::integer_attribute(node, RT_ATTR_HEADS, 0), 2);
  EXPECT_EQ(graph::integer_attribute(node, RT_ATTR_CAUSAL, 0), 1);
}

TEST(Transformer, ContainersWithoutPrefixLeaveNoTraceInNames) {
  const Network n = float64_network(R"(input = [8]
layers = [ { type = "block", name = "h", repeat = 2, layers = [
    { type = "residual", prefix = false, layers = [
      { type = "layer_norm", name = "ln_1" },
      { type = "block", prefix = false, layers = [ { type = "linear", name = "a", features = 8 } ] } ] },
    { type = "residual", prefix = false, layers = [
      { type = "linear", name = "b", features = 8 } ], shortcut = [
      { type = "linear", name = "c", features = 8, bias = false } ] } ] },
  { type = "residual", prefix = false, layers = [ { type = "linear", name = "d", features = 8 } ] } ]
)");
  EXPECT_THAT(parameter_names(n),
              ElementsAre("h.0.ln_1.weight", "h.0.ln_1.bias", "h.0.a.weight", "h.0.a.bias",
                          "h.0.b.weight", "h.0.b.bias", "h.0.c.weight", "h.1.ln_1.weight",
                          "h.1.ln_1.bias", "h.1.a.weight", "h.1.a.bias", "h.1.b.weight",
                          "h.1.b.bias", "h.1.c.weight", "d.weight", "d.bias"));
  EXPECT_EQ(n.graph.nodes.back().layer, "residual1");
  EXPECT_THAT(
      refusal_of("input = [8]\nlayers = [ { type = \"block\", prefix = false, repeat = 2, layers "
                 "= [ { type = \"linear\", name = \"a\", features = 8 } ] } ]"),
      HasSubstr("different names"));
}

// Passes over the graph identify layers by their names.
TEST(Transformer, UnnamedLayersWithoutPrefixAreNumberedOn) {
  const std::string branch =
      "{ type = \"residual\", prefix = false, layers = [ { type = \"linear\", features = 8, bias = "
      "false } ] }";
  const Network n =
      float64_network("input = [8]\nlayers = [ { type = \"block\", name = \"h\", layers = [ " +
                      branch + ", " + branch + " ] } ]");
  EXPECT_THAT(parameter_names(n), ElementsAre("h.fc1.weight", "h.fc2.weight"));
  std::vector<std::string> layers;
  for (const graph::Node& node : n.graph.nodes) layers.push_back(node.layer);
  EXPECT_THAT(layers, ElementsAre("h.fc1", "h.residual1", "h.fc2", "h.residual2"));
}

TEST(Transformer, StagesOfContainersAreThoseOfTheirLayers) {
  Layer linear, block, last;
  linear.kind = Linear{4, true};
  linear.name = "a";
  linear.shard = "row";
  Layer other = linear;
  other.name = "b";
  other.stage = 2;
  block.kind = Block{{linear, other}};
  block.name = "h";
  block.stage = 1;
  last.kind = Softmax{};
  const Network n = build_network(Model{{4}, {block, last}, {}}, NetworkOptions{});
  EXPECT_EQ(n.stages, (std::map<std::string, int>{{"h", 1}, {"h.a", 1}, {"h.b", 2}}));
  EXPECT_EQ(n.shards, (std::map<std::string, std::string>{{"h.a", "row"}, {"h.b", "row"}}));
}

TEST(Transformer, InOutIsTheTransposeInFiles) {
  const Network n = float64_network(
      "input = [3, 2, 4]\nlayers = [ { type = \"flatten\" }, { type = \"linear\", features = 5, "
      "file_layout = \"in_out\" }, { type = \"linear\", features = 7, file_layout = \"in_out\" } "
      "]");
  EXPECT_EQ(parameter(n, "fc2.weight").file_dims, (Dims{5, 7}));
  EXPECT_EQ(parameter(n, "fc2.weight").view, (Dims{7, 5}));
  EXPECT_THAT(parameter(n, "fc2.weight").permutation, ElementsAre(1, 0));
  // The columns of a flattened image: [O, H, W, C] -> [C, H, W, O].
  EXPECT_EQ(parameter(n, "fc1.weight").file_dims, (Dims{24, 5}));
  EXPECT_THAT(parameter(n, "fc1.weight").permutation, ElementsAre(3, 1, 2, 0));
}

// ---- tied weights

std::string language_model(const std::string& head) {
  return "input = [3]\nlayers = [ { type = \"embedding\", name = \"e\", vocabulary = 5, features = "
         "4 "
         "}, { type = \"linear\", features = 4, activation = \"tanh\" }, { type = \"linear\", name "
         "= "
         "\"head\", features = 5, bias = false" +
         head + " } ]";
}

// Gradients by name; "head.weight" has the initial values of the table.
std::map<std::string, Numbers> gradients(const std::string& head) {
  Network n = float64_network(language_model(head));
  graph::Graph& g = n.graph;
  const ValueId labels = test::add_value(g, "labels", ValueKind::kInput, {2, 3}, RT_INT32);
  const ValueId weight = test::add_value(g, "weight", ValueKind::kInput, {2, 3});
  const ValueId one = test::add_value(g, "one", ValueKind::kState, {1});
  const ValueId loss = graph::Build(g).cross_entropy(n.output, labels, weight);
  std::vector<ValueId> wanted;
  for (const Parameter& p : n.parameters) wanted.push_back(p.value);
  std::map<std::string, ValueId> outputs;
  for (const auto& [v, gradient] : graph::differentiate(g, loss, one, wanted))
    outputs[g.value(v).name] = test::add_output(g, gradient, "d " + g.value(v).name);
  GraphRun run(g, test::open_device("reference"));
  for (const Parameter& p : n.parameters) {
    run.set(p.value,
            initial(p.name == "head.weight" ? "e.weight" : p.name, graph::element_count(p.view)));
  }
  run.set(n.features, {0, 4, 1, 2, 2, 3});
  run.set(labels, {4, 1, 0, 2, 3, 1});
  run.set(weight, Numbers(6, 1.0 / 6));
  run.set(one, {1});
  run.run();
  std::map<std::string, Numbers> result;
  for (const auto& [name, v] : outputs) result[name] = run.get(v);
  return result;
}

TEST(Transformer, GradientsOfATiedWeightAddUp) {
  EXPECT_THAT(parameter_names(float64_network(language_model(", tie = \"e\""))),
              ElementsAre("e.weight", "fc1.weight", "fc1.bias"));
  const auto tied = gradients(", tie = \"e\""), own = gradients("");
  ASSERT_EQ(tied.size() + 1, own.size());
  Numbers sum = own.at("e.weight");
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += own.at("head.weight")[i];
  EXPECT_LT(test::relative_error(tied.at("e.weight"), sum), 1e-14);
  EXPECT_GT(test::relative_error(tied.at("e.weight"), own.at("e.weight")), 0.1);
  EXPECT_LT(test::relative_error(tied.at("fc1.weight"), own.at("fc1.weight")), 1e-14);
}

TEST(Transformer, TieThatDoesNotFit) {
  EXPECT_THAT(refusal_of(language_model(", tie = \"wte\"")),
              AllOf(HasSubstr("layer 'head'"), HasSubstr("tie = \"wte\""), HasSubstr("full name")));
  EXPECT_THAT(refusal_of(language_model(", tie = \"fc1\"")),
              AllOf(HasSubstr("table is [4, 4]"), HasSubstr("needs [5, 4]")));
}

// ---- keys that change a preset

TEST(Transformer, OutputsOfATiedModelAreItsVocabulary) {
  const Network n = float64_network("preset = \"gpt_char_small\"\noutputs = 80\ninput = [16]");
  EXPECT_EQ(parameter(n, "wte.weight").file_dims, (Dims{80, 128}));
  EXPECT_EQ(n.graph.value(n.output).dims, (Dims{2, 16, 80}));
}

TEST(Transformer, OutputsReplaceTheHead) {
  const Network n = float64_network("preset = \"alexnet_small\"\noutputs = 7");
  EXPECT_EQ(parameter(n, "classifier.6.weight").file_dims, (Dims{7, 1024}));
  EXPECT_THAT(refusal_of("outputs = 7\ninput = [8]\nlayers = [ { type = \"relu\" } ]"),
              AllOf(HasSubstr("model.outputs"), HasSubstr("linear")));
}

TEST(Transformer, DropoutOfAllLayers) {
  const auto probabilities = [](const std::string& model) {
    std::set<double> found;
    for (const graph::Node& node : float64_network(model).graph.nodes) {
      if (node.op == RT_OP_DROPOUT)
        found.insert(graph::number_attribute(node, RT_ATTR_PROBABILITY, -1));
    }
    return found;
  };
  const std::string gpt = "preset = \"gpt_char\"\ninput = [8]\n";
  EXPECT_THAT(probabilities(gpt), ElementsAre(0.2));
  EXPECT_THAT(probabilities(gpt + "dropout = 0.5"), ElementsAre(0.5));
  EXPECT_TRUE(probabilities(gpt + "dropout = 0").empty());
}

// The projections of a packed layer as three branches: the same weights give the same numbers.
TEST(Transformer, BranchesOfAttentionAreColumnsOfThePackedOne) {
  const std::string begin =
      "input = [3]\nlayers = [ { type = \"embedding\", name = \"e\", vocabulary = 5, features = 8 "
      "}, ";
  Network packed = float64_network(begin +
                                   "{ type = \"linear\", name = \"qkv\", features = 16, bias "
                                   "= false }, { type = \"attention\", heads = 4, "
                                   "key_heads = 2, causal = true, window = 2 } ]");
  const auto branch = [](const std::string& name, int features) {
    return name + " = [ { type = \"linear\", name = \"" + name +
           "\", features = " + std::to_string(features) + ", bias = false } ]";
  };
  Network apart = float64_network(
      begin +
      "{ type = \"attention\", prefix = false, heads = 4, key_heads = 2, causal = true, "
      "window = 2, " +
      branch("query", 8) + ", " + branch("key", 4) + ", " + branch("value", 4) + " } ]");
  EXPECT_THAT(parameter_names(apart),
              ElementsAre("e.weight", "query.weight", "key.weight", "value.weight"));
  const Numbers weights = initial("qkv.weight", 16 * 8), features = {0, 1, 2, 3, 4, 0};
  const auto run = [&](Network& n, const std::vector<std::pair<std::string, Numbers>>& values) {
    const ValueId y = test::add_output(n.graph, n.output, "y");
    GraphRun run(n.graph, test::open_device("reference"));
    run.set(parameter(n, "e.weight").value, initial("e.weight", 40));
    for (const auto& [name, numbers] : values) run.set(parameter(n, name).value, numbers);
    run.set(n.features, features);
    run.run();
    return run.get(y);
  };
  const auto rows = [&](int from, int to) {
    return Numbers(weights.begin() + 8 * from, weights.begin() + 8 * to);
  };
  EXPECT_EQ(run(packed, {{"qkv.weight", weights}}), run(apart, {{"query.weight", rows(0, 8)},
                                                                {"key.weight", rows(8, 12)},
                                                                {"value.weight", rows(12, 16)}}));
}

TEST(Transformer, AttentionOfAnotherWidthIsRefused) {
  EXPECT_THAT(
      refusal_of("input = [3]\nlayers = [ { type = \"embedding\", vocabulary = 5, features = 9 "
                 "}, { type = \"attention\", heads = 4, key_heads = 2 } ]"),
      AllOf(HasSubstr("attention1"), HasSubstr("a multiple of 8")));
}

}  // namespace
}  // namespace runtime::model
