// Checks graphs and parameters of models, and layers that do not fit.
#include "runtime/model/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "runtime/error.h"
#include "runtime/model/layer_types.h"
#include "tests/runtime/model/parameters.h"
#include "tests/runtime/support/devices.h"
#include "tests/runtime/support/graph_run.h"

namespace runtime::model {
namespace {

using graph::Dims;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Model preset(const std::string& name) {
  return model_from_config(test::parse("model.preset = \"" + name +
                                       "\"\ndataset.name = \"synthetic\"\n"
                                       "dataset.samples = 4\ndataset.classes = 10\n"
                                       "training.global_batch_size = 4\n")
                               .model);
}

Model model(const std::string& toml) {
  return model_from_config(test::parse("dataset.name = \"synthetic\"\ndataset.samples = 4\n"
                                       "dataset.classes = 10\n"
                                       "training.global_batch_size = 4\n[model]\n" +
                                       toml)
                               .model);
}

Network build(const Model& m, bool training = true) {
  NetworkOptions options;
  options.batch = 4;
  options.training = training;
  return build_network(m, options);
}

std::string refusal(const std::string& toml) {
  return test::message_of<ConfigurationError>([&] { build(model(toml)); });
}

TEST(Network, LeNet) {
  const Network n = build(preset("lenet"));
  EXPECT_THAT(parameter_names(n),
              ElementsAre("conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias", "fc1.weight",
                          "fc1.bias", "fc2.weight", "fc2.bias"));
  EXPECT_EQ(n.graph.value(n.features).dims, (Dims{4, 28, 28, 1}));
  EXPECT_EQ(n.graph.value(n.output).dims, (Dims{4, 10}));
  EXPECT_EQ(parameter(n, "conv2.weight").file_dims, (Dims{50, 20, 5, 5}));
  EXPECT_EQ(n.graph.value(parameter(n, "conv2.weight").value).dims, (Dims{50, 5, 5, 20}));
  EXPECT_EQ(parameter(n, "fc1.weight").file_dims, (Dims{128, 800}));
  EXPECT_EQ(n.step, graph::kNone);
}

// By hand: the mean square of 3 and -4 is 12.5.
TEST(Network, RmsNormDividesByTheRootMeanSquare) {
  Network n = build(model("input = [2]\nlayers = [ { type = \"rms_norm\", eps = 0.5 } ]"), false);
  EXPECT_THAT(parameter_names(n), ElementsAre("rms_norm1.weight"));
  const graph::ValueId y = test::add_output(n.graph, n.output, "y");
  test::GraphRun run(n.graph, test::open_device("reference"));
  run.set(n.features, {3, -4, 0, 0, 1, 1, 2, 0});
  run.set(n.parameters[0].value, {2, 10});
  run.run();
  const double a = std::sqrt(13), b = std::sqrt(1.5), c = std::sqrt(2.5);
  const test::Numbers expected = {6 / a, -40 / a, 0, 0, 2 / b, 10 / b, 4 / c, 0};
  EXPECT_LT(test::relative_error(run.get(y), expected), 1e-6);
}

// Where a row of a layer forgets its formula or a parameter, the network cannot be built.
TEST(Network, EachTypeOfLayerIsBuiltOrRefusedByItsKeys) {
  std::set<std::string> built;
  for (const config::LayerType& type : layer_types()) {
    for (const char* input : {"[8]", "[4, 4, 8]"}) {
      try {
        build(model("input = " + std::string(input) + "\nlayers = [ { type = \"" + type.name +
                    "\" } ]"));
        built.insert(type.name);
      } catch (const ConfigurationError&) {  // it needs another input, or keys
      } catch (const std::exception& error) {
        ADD_FAILURE() << type.name << ": " << error.what();
      }
    }
  }
  EXPECT_THAT(built, testing::IsSupersetOf({"silu", "l2_norm", "batch_norm", "rms_norm"}));
}

TEST(Network, AdaptivePoolingHasWindowsOfOneSize) {
  const auto pool = [](const std::string& size) {
    return "input = [2, 6, 8]\nlayers = [ { type = \"adaptive_avg_pool2d\", size = " + size +
           " } ]";
  };
  const Network n = build(model(pool("[3, 2]")));
  EXPECT_EQ(n.graph.value(n.output).dims, (Dims{4, 3, 2, 2}));
  EXPECT_EQ(graph::integer_attribute(n.graph.nodes.back(), RT_ATTR_STRIDE_H, 0), 2);
  EXPECT_EQ(graph::integer_attribute(n.graph.nodes.back(), RT_ATTR_KERNEL_W, 0), 4);
  EXPECT_TRUE(build(model(pool("[6, 8]"))).graph.nodes.empty());
  EXPECT_THAT(refusal(pool("4")), AllOf(HasSubstr("layer 'adaptive_pool1'"), HasSubstr("4x4"),
                                        HasSubstr("[4, 6, 8, 2]")));
  EXPECT_THAT(refusal(pool("12")), HasSubstr("multiple"));
}

TEST(Network, KernelThatDoesNotFit) {
  EXPECT_THAT(refusal("input = [1, 4, 4]\nlayers = [ { type = \"conv2d\", name = \"wide\", "
                      "channels = 2, kernel = 5 } ]"),
              AllOf(HasSubstr("layer 'wide'"), HasSubstr("5x5"), HasSubstr("4x4")));
}

TEST(Network, LinearOnAnImage) {
  EXPECT_THAT(refusal("input = [1, 4, 4]\nlayers = [ { type = \"linear\", features = 5 } ]"),
              AllOf(HasSubstr("layer 'fc1'"), HasSubstr("[4, 4, 4, 1]"), HasSubstr("flatten")));
}

TEST(Network, ConvolutionOfAVector) {
  EXPECT_THAT(refusal("input = [16]\nlayers = [ { type = \"conv2d\", channels = 5, kernel = 1 } ]"),
              AllOf(HasSubstr("layer 'conv1'"), HasSubstr("needs an image")));
}

TEST(Network, ResidualWhoseSidesDiffer) {
  EXPECT_THAT(
      refusal("input = [3, 8, 8]\nlayers = [ { type = \"residual\", name = \"block\", layers = [ "
              "{ type = \"conv2d\", channels = 6, kernel = 3, padding = 1, stride = 2 } ] } ]"),
      AllOf(HasSubstr("layer 'block'"), HasSubstr("[4, 4, 4, 6]"), HasSubstr("[4, 8, 8, 3]"),
            HasSubstr("1x1 conv2d")));
}

TEST(Network, TwoParametersOfOneName) {
  EXPECT_THAT(
      refusal("input = [4]\nlayers = [ { type = \"linear\", name = \"a.b\", features = 4 }, "
              "{ type = \"block\", name = \"a\", layers = [ { type = \"linear\", name = "
              "\"b\", features = 4 } ] } ]"),
      AllOf(HasSubstr("'a.b.weight'"), HasSubstr("different names")));
}

TEST(Network, GroupsThatDoNotDivide) {
  EXPECT_THAT(refusal("input = [3, 8, 8]\nlayers = [ { type = \"conv2d\", channels = 4, kernel = "
                      "3, groups = 2 } ]"),
              AllOf(HasSubstr("layer 'conv1'"), HasSubstr("groups = 2")));
}

TEST(Network, NoLayers) {
  EXPECT_THAT(test::message_of<ConfigurationError>([] {
                build(Model{{4}, {}, {}});
              }),
              HasSubstr("no layers"));
}

TEST(Network, SamePaddingKeepsTheSize) {
  const Network n = build(
      model("input = [2, 7, 6]\nlayers = [ { type = \"conv2d\", channels = 3, kernel = [4, 3], "
            "stride = [2, 1], padding = \"same\" } ]"));
  EXPECT_EQ(n.graph.value(n.output).dims, (Dims{4, 4, 6, 3}));
}

// Columns after a flatten: canonical is [O, H, W, C], PyTorch has [O, C, H, W].
TEST(Network, FlattenPermutesTheNextLinearLayerOnly) {
  const Network n = build(
      model("input = [3, 4, 5]\nlayers = [ { type = \"flatten\" }, { type = \"linear\", features = "
            "7 }, { type = \"linear\", features = 60 }, { type = \"linear\", features = 2 } ]"));
  EXPECT_EQ(parameter(n, "fc1.weight").view, (Dims{7, 4, 5, 3}));
  EXPECT_THAT(parameter(n, "fc1.weight").permutation, ElementsAre(0, 3, 1, 2));
  EXPECT_EQ(parameter(n, "fc1.weight").file_dims, (Dims{7, 60}));
  EXPECT_THAT(parameter(n, "fc3.weight").permutation, ElementsAre(0, 1));
}

// In files, parameters per feature of a flattened image are in PyTorch's order as well.
TEST(Network, FlattenPermutesTheParametersOfNormalisations) {
  const Network n = build(
      model("input = [3, 4, 5]\nlayers = [ { type = \"flatten\" }, { type = \"batch_norm\" }, "
            "{ type = \"layer_norm\" }, { type = \"linear\", features = 2 } ]"));
  for (const char* name : {"bn1.weight", "bn1.bias", "bn1.running_mean", "bn1.running_var",
                           "ln1.weight", "ln1.bias"}) {
    EXPECT_EQ(parameter(n, name).view, (Dims{4, 5, 3})) << name;
    EXPECT_THAT(parameter(n, name).permutation, ElementsAre(2, 0, 1)) << name;
    EXPECT_EQ(parameter(n, name).file_dims, (Dims{60})) << name;
  }
  EXPECT_EQ(parameter(n, "fc1.weight").view, (Dims{2, 4, 5, 3}));
}

std::vector<std::string> operations(const Network& n) {
  std::vector<std::string> list;
  for (const graph::Node& node : n.graph.nodes) list.push_back(node.op);
  return list;
}

TEST(Network, FlattenedImageIsTransposedWhereItsOrderIsSeen) {
  const std::string flatten = "input = [3, 4, 5]\nlayers = [ { type = \"flatten\" }";
  EXPECT_THAT(operations(build(model(flatten + " ]"))), ElementsAre(RT_OP_TRANSPOSE));
  // The branch has PyTorch's order, so the shortcut must have it too.
  const Network n =
      build(model(flatten + ", { type = \"residual\", layers = [ { type = \"linear\", bias = "
                            "false, features = 60 } ] }, { type = \"linear\", features = 2 } ]"));
  EXPECT_THAT(operations(n),
              ElementsAre(RT_OP_MATMUL, RT_OP_TRANSPOSE, RT_OP_ADD, RT_OP_MATMUL, RT_OP_ADD));
  EXPECT_THAT(parameter(n, "fc1.weight").permutation, ElementsAre(0, 1));
  // Both sides still have the order of the image, and with one channel there is only one order.
  EXPECT_THAT(operations(build(model(flatten +
                                     ", { type = \"residual\", layers = [ { type = \"tanh\" } ] }, "
                                     "{ type = \"linear\", bias = false, features = 2 } ]"))),
              ElementsAre(RT_OP_ACTIVATION, RT_OP_ADD, RT_OP_MATMUL));
  EXPECT_TRUE(
      build(model("input = [1, 4, 5]\nlayers = [ { type = \"flatten\" } ]")).graph.nodes.empty());
}

TEST(Network, RepeatNumbersTheCopies) {
  const Network n = build(model(
      "input = [8]\nlayers = [ { type = \"block\", name = \"body\", repeat = 2, layers = [ { type "
      "= \"linear\", features = 8, bias = false }, { type = \"linear\", name = \"last\", features "
      "= 8, bias = false } ] }, { type = \"linear\", features = 8, repeat = 2, bias = false } ]"));
  EXPECT_THAT(parameter_names(n),
              ElementsAre("body.0.fc1.weight", "body.0.last.weight", "body.1.fc1.weight",
                          "body.1.last.weight", "fc1.0.weight", "fc1.1.weight"));
}

TEST(Network, EvaluationHasNoDropoutAndUsesStatistics) {
  const Model m = model(
      "input = [8]\nlayers = [ { type = \"linear\", features = 8 }, { type = \"batch_norm\" }, "
      "{ type = \"dropout\", probability = 0.5 } ]");
  const auto operations = [](const Network& n) {
    std::string text;
    for (const graph::Node& node : n.graph.nodes) text += node.op + " ";
    return text;
  };
  EXPECT_EQ(operations(build(m)), "matmul add batch_norm dropout ");
  EXPECT_NE(build(m).step, graph::kNone);
  EXPECT_EQ(operations(build(m, false)), "matmul add batch_norm_inference ");
  EXPECT_EQ(build(m, false).step, graph::kNone);
}

TEST(Network, InitAndL2OfALayerGoBeforeTheModels) {
  const Network n = build(model(
      "init = { normal = 0.01 }\ninput = [8]\nlayers = [ { type = \"linear\", features = 8 }, "
      "{ type = \"linear\", features = 8, init = \"xavier_uniform\", l2 = 0.5 } ]"));
  EXPECT_EQ(parameter(n, "fc1.weight").init.kind, "normal");
  EXPECT_EQ(parameter(n, "fc1.weight").init.value, 0.01);
  EXPECT_EQ(parameter(n, "fc1.bias").init.kind, "constant");
  EXPECT_EQ(parameter(n, "fc1.weight").l2, 0);
  EXPECT_EQ(parameter(n, "fc2.weight").init.kind, "xavier_uniform");
  EXPECT_EQ(parameter(n, "fc2.weight").l2, 0.5);
  EXPECT_EQ(parameter(n, "fc2.bias").l2, 0);  // the penalty applies to weights only
}

// PyTorch's rule for weights [out, in / groups, kh, kw]: fan-in is in / groups kh kw, fan-out is
// out kh kw. conv1: 4 * 3 * 2 = 24 and 12 * 3 * 2 = 72; conv2 (depthwise): 1 * 5 * 5 = 25 and 12 *
// 25.
TEST(Network, FansOfGroupedConvolutionsAreThoseOfPyTorch) {
  const Network n = build(model(
      "input = [8, 9, 9]\nlayers = [ { type = \"conv2d\", channels = 12, kernel = [3, 2], groups "
      "= 2 }, { type = \"conv2d\", channels = 12, kernel = 5, groups = 12 } ]"));
  EXPECT_EQ(parameter(n, "conv1.weight").fan_in, 24);
  EXPECT_EQ(parameter(n, "conv1.weight").fan_out, 72);
  EXPECT_EQ(parameter(n, "conv1.bias").fan_in, 24);
  EXPECT_EQ(parameter(n, "conv2.weight").fan_in, 25);
  EXPECT_EQ(parameter(n, "conv2.weight").fan_out, 300);
}

TEST(Network, TransformerBlock) {
  const Network n = build(
      model("input = [16]\nlayers = [ { type = \"embedding\", vocabulary = 50, features = 32 }, "
            "{ type = \"residual\", name = \"mlp\", layers = [ { type = \"layer_norm\" }, "
            "{ type = \"linear\", features = 64, activation = \"gelu\" }, "
            "{ type = \"linear\", features = 32 } ] }, { type = \"flatten\" }, "
            "{ type = \"linear\", features = 10 } ]"));
  EXPECT_EQ(n.graph.value(n.output).dims, (Dims{4, 10}));
  EXPECT_EQ(parameter(n, "embedding1.weight").file_dims, (Dims{50, 32}));
  EXPECT_EQ(parameter(n, "mlp.fc1.weight").file_dims, (Dims{64, 32}));
}

// By hand: the mean squares of (3, -4) and of (1, 1) are 12.5 and 1.
TEST(Network, RmsNormOfHeadsSharesTheWeight) {
  Network n = build(
      model("input = [4]\nlayers = [ { type = \"rms_norm\", eps = 0.5, heads = 2 } ]"), false);
  EXPECT_EQ(n.graph.value(n.parameters[0].value).dims, (Dims{2}));
  const graph::ValueId y = test::add_output(n.graph, n.output, "y");
  test::GraphRun run(n.graph, test::open_device("reference"));
  run.set(n.features, {3, -4, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  run.set(n.parameters[0].value, {2, 10});
  run.run();
  const double a = std::sqrt(13), b = std::sqrt(1.5);
  test::Numbers expected(16, 0);
  expected[0] = 6 / a, expected[1] = -40 / a, expected[2] = 2 / b, expected[3] = 10 / b;
  EXPECT_LT(test::relative_error(run.get(y), expected), 1e-6);
}

TEST(Network, BranchesJoin) {
  const std::string branch = "{ type = \"linear\", name = \"a\", features = 4 }";
  const auto dims_of = [&](const std::string& layer) {
    const Network n = build(model("input = [4]\nlayers = [ " + layer + " ]"));
    return n.graph.value(n.output).dims;
  };
  for (const std::string by : {"add", "multiply"})
    EXPECT_EQ(dims_of("{ type = \"join\", layers = [ " + branch + " ], by = \"" + by + "\" }"),
              (Dims{4, 4}));
  EXPECT_EQ(dims_of("{ type = \"join\", layers = [ " + branch +
                    " ], by = \"concat\", other = [ { type = \"linear\", features = 3 } ] }"),
            (Dims{4, 7}));
  EXPECT_THAT(refusal("input = [4]\nlayers = [ { type = \"join\", layers = [ " + branch +
                      " ], by = \"add\", other = [ { type = \"linear\", features = 3 } ] } ]"),
              AllOf(HasSubstr("join1"), HasSubstr("[4, 4]"), HasSubstr("[4, 3]")));
}

TEST(Network, GatedHasTwoBranches) {
  const Network n = build(model(
      "input = [4]\nlayers = [ { type = \"block\", name = \"mlp\", layers = [ { type = \"gated\", "
      "prefix = false, gate = [ { type = \"linear\", name = \"gate_proj\", features = 6, bias = "
      "false } ], up = [ { type = \"linear\", name = \"up_proj\", features = 6, bias = false } ] "
      "}, "
      "{ type = \"linear\", name = \"down_proj\", features = 4, bias = false } ] } ]"));
  EXPECT_THAT(parameter_names(n),
              ElementsAre("mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight"));
  EXPECT_EQ(n.graph.value(n.output).dims, (Dims{4, 4}));
}

// By hand: at place 1 the first pair turns by 1 radian, at place 0 by none.
TEST(Network, RotaryTurnsByThePlace) {
  Network n =
      build(model("input = [2]\nlayers = [ { type = \"embedding\", vocabulary = 2, features "
                  "= 2 }, { type = \"rotary\", heads = 1 } ]"),
            false);
  const graph::ValueId y = test::add_output(n.graph, n.output, "y");
  test::GraphRun run(n.graph, test::open_device("reference"));
  run.set(n.features, {0, 0, 0, 0, 0, 0, 0, 0});
  run.set(n.parameters[0].value, {1, 2, 0, 0});
  run.run();
  const double c = std::cos(1), s = std::sin(1);
  const test::Numbers found = run.get(y), expected = {1, 2, c - 2 * s, 2 * c + s};
  EXPECT_LT(test::relative_error({found.begin(), found.begin() + 4}, expected), 1e-6);
}

TEST(Network, RotaryNeedsAnEvenNumberOfFeatures) {
  EXPECT_THAT(
      refusal("input = [2]\nlayers = [ { type = \"embedding\", vocabulary = 2, features = 6 "
              "}, { type = \"rotary\", heads = 2 } ]"),
      AllOf(HasSubstr("rotary1"), HasSubstr("3 features of each of 2 heads")));
}

}  // namespace
}  // namespace runtime::model
