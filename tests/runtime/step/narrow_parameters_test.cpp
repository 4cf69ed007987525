// Checks where the 16-bit copies of parameters lie, who reads them and who writes them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/exec/device_target.h"
#include "runtime/step/compile_step.h"
#include "tests/runtime/support/devices.h"

namespace runtime::step {
namespace {

using graph::kNone;
using graph::Node;
using graph::Phase;
using graph::Value;
using graph::ValueId;
using graph::ValueKind;

// An embedding whose table is used again, with a linear layer in between.
model::Model tied() {
  model::Layer table, middle, head;
  table.kind = model::Embedding{9, 6};
  table.name = "wte";
  middle.kind = model::Linear{6, true};
  middle.name = "fc";
  head.kind = model::Linear{9, false, "wte"};
  head.name = "head";
  return {{4}, {table, middle, head}, {}};
}

class NarrowParametersTest : public testing::Test {
 protected:
  NarrowParametersTest() {
    recipe_.labels = 4;
    recipe_.classes = 9;
    strategy_.precision.activations = RT_BFLOAT16;
    strategy_.buckets.alignment = 512;
  }
  const Step& build(Purpose purpose = Purpose::kTraining) {
    const StepForm form{purpose, 4};
    step_ = build_step({model_, recipe_, strategy_, form});
    return step_;
  }
  std::vector<Node> nodes(const std::string& op, Phase phase) const {
    std::vector<Node> found;
    for (const Node& n : step_.graph.nodes) {
      if (n.op == op && n.phase == phase) found.push_back(n);
    }
    return found;
  }
  const Value& storage_of(ValueId v) const { return step_.graph.value(step_.graph.storage(v)); }
  // How many casts of parameters the forward pass has.
  int64_t casts() const {
    const std::vector<Node> all = nodes(RT_OP_CAST, Phase::kForward);
    return std::count_if(all.begin(), all.end(), [&](const Node& n) {
      return storage_of(n.inputs[0]).kind == ValueKind::kParameter;
    });
  }
  const Node& optimizer() const { return step_.graph.nodes.back(); }

  model::Model model_ = tied();
  TrainingSpec recipe_;
  Strategy strategy_;
  Step step_;
};

TEST_F(NarrowParametersTest, AreViewsOfOneCopyAtHalfTheOffsets) {
  build();
  EXPECT_EQ(casts(), 0);
  const std::vector<Node> packs = nodes(RT_OP_CAST, Phase::kPack);
  ASSERT_EQ(packs.size(), 1u);
  EXPECT_EQ(step_.graph.nodes[0].phase, Phase::kPack);
  EXPECT_EQ(packs[0].inputs[0], step_.values.buffers.parameters);
  const ValueId narrow = step_.values.buffers.narrow;
  EXPECT_EQ(packs[0].outputs[0], narrow);
  EXPECT_EQ(step_.graph.value(narrow).kind, ValueKind::kPacked);
  EXPECT_EQ(step_.graph.value(narrow).dtype, RT_BFLOAT16);
  EXPECT_EQ(step_.graph.value(narrow).dims,
            step_.graph.value(step_.values.buffers.parameters).dims);
  int views = 0;
  for (const Node& n : step_.graph.nodes) {
    for (ValueId v : n.inputs) {
      if (v == narrow || step_.graph.storage(v) != narrow) continue;
      EXPECT_EQ(step_.graph.value(v).offset % 256, 0u);
      ++views;
    }
  }
  EXPECT_GT(views, 3);
  const Value& bias = step_.graph.value(step_.values.parameters[2].value);
  const ValueId copy = nodes(RT_OP_ADD, Phase::kForward).at(0).inputs.at(1);
  EXPECT_EQ(2 * step_.graph.value(copy).offset, bias.offset);
  EXPECT_EQ(step_.graph.value(copy).dims, bias.dims);
}

TEST_F(NarrowParametersTest, ATiedTableHasOneCopy) {
  build();
  const ValueId table = nodes(RT_OP_EMBEDDING, Phase::kForward).at(0).inputs[1];
  const std::vector<Node> products = nodes(RT_OP_MATMUL, Phase::kForward);
  EXPECT_EQ(products.at(1).inputs[1], table);
  EXPECT_EQ(products[1].layer, "head");
}

TEST_F(NarrowParametersTest, TheOptimizerWritesThem) {
  for (const char* name : {"sgd", "adamw"}) {
    recipe_.optimizer.name = name;
    build();
    EXPECT_EQ(optimizer().op, name);
    EXPECT_EQ(optimizer().outputs.back(), step_.values.buffers.narrow);
    EXPECT_EQ(optimizer().outputs.size(), std::string(name) == "sgd" ? 2u : 4u);
  }
}

TEST_F(NarrowParametersTest, OtherStepsReadTheSameCopy) {
  for (const Purpose purpose : {Purpose::kMicroStep, Purpose::kGradients, Purpose::kEvaluation}) {
    build(purpose);
    EXPECT_EQ(casts(), 0);
    ASSERT_EQ(nodes(RT_OP_CAST, Phase::kPack).size(), 1u);
    EXPECT_EQ(step_.graph.value(step_.values.buffers.narrow).name, "parameters.bfloat16");
    EXPECT_TRUE(nodes(RT_OP_SGD, Phase::kUpdate).empty());
  }
}

TEST_F(NarrowParametersTest, FrozenOnesHaveACopyOfTheirOwn) {
  recipe_.freeze = {"fc.*"};
  build();
  EXPECT_EQ(casts(), 0);
  EXPECT_EQ(nodes(RT_OP_CAST, Phase::kPack).size(), 2u);
  const ValueId weight = nodes(RT_OP_MATMUL, Phase::kForward).at(0).inputs[1];
  EXPECT_EQ(storage_of(weight).name, "frozen.bfloat16");
  EXPECT_EQ(step_.graph.value(optimizer().outputs.back()).name, "parameters.bfloat16");
}

TEST_F(NarrowParametersTest, AnUpdateOfAPartDoesNotWriteThem) {
  strategy_.mesh.data = strategy_.batch.world_size = strategy_.buckets.world_size = 2;
  for (const int stage : {0, 1, 2}) {
    strategy_.data.zero_stage = stage;
    build();
    EXPECT_EQ(casts(), 0);
    EXPECT_EQ(optimizer().outputs.size(), stage == 0 ? 2u : 1u) << stage;
  }
  strategy_.data.zero_stage = 3;
  build();
  EXPECT_GT(casts(), 3) << "of what was gathered";
  EXPECT_EQ(step_.values.buffers.narrow, kNone);
}

TEST_F(NarrowParametersTest, TrainingInFloat32HasNone) {
  strategy_.precision.activations = 0;
  build();
  EXPECT_EQ(step_.values.buffers.narrow, kNone);
  EXPECT_TRUE(nodes(RT_OP_CAST, Phase::kPack).empty());
  EXPECT_EQ(optimizer().outputs.size(), 1u);
}

// Ranks of the data axis update each bucket when its gradients have arrived.
TEST_F(NarrowParametersTest, EachBucketOfAnUpdateWritesItsPart) {
  strategy_.mesh.data = strategy_.batch.world_size = strategy_.buckets.world_size = 2;
  strategy_.buckets.bucket_bytes = strategy_.buckets.first_bucket_bytes = 64;
  const StepForm form{Purpose::kTraining, 4};
  exec::DeviceTarget target(test::open_device("reference"), {.tune = exec::Tune::kOff});
  step_ = compile_step({model_, recipe_, strategy_, form}, target);
  const std::vector<Node> updates = nodes(RT_OP_SGD, Phase::kUpdate);
  EXPECT_GT(updates.size(), 1u);
  uint64_t bytes = 0;
  for (const Node& n : updates) {
    ASSERT_EQ(n.outputs.size(), 2u);
    const Value &wide = step_.graph.value(n.outputs[0]), &narrow = step_.graph.value(n.outputs[1]);
    EXPECT_EQ(narrow.base, step_.values.buffers.narrow);
    EXPECT_EQ(2 * narrow.offset, wide.offset);
    EXPECT_EQ(narrow.dims, wide.dims);
    bytes += graph::canonical_bytes(narrow);
  }
  EXPECT_EQ(bytes, step_.graph.value(step_.values.buffers.narrow).bytes) << "the whole copy";
}

TEST_F(NarrowParametersTest, ADeviceThatCannotWriteThemCastsAfterEachUpdate) {
  const StepForm form{Purpose::kTraining, 4};
  const auto compile = [&](const std::string& refuse) {
    exec::DeviceTarget target(test::open_device("simulated", {{"refuse", refuse}}),
                              {.tune = exec::Tune::kOff});
    step_ = compile_step({model_, recipe_, strategy_, form}, target);
    return optimizer().outputs.size();
  };
  EXPECT_EQ(compile("dropout"), 2u);
  EXPECT_TRUE(step_.notes.empty());
  EXPECT_EQ(compile("narrow"), 1u);
  EXPECT_EQ(casts(), 0);
  EXPECT_EQ(nodes(RT_OP_CAST, Phase::kPack).size(), 1u);
  EXPECT_THAT(step_.notes,
              testing::ElementsAre(testing::AllOf(
                  testing::HasSubstr("after each update the parameters are cast to bfloat16: sgd"),
                  testing::HasSubstr("refused by the option 'refuse'"))));
}

// Otherwise the copy would count as renewed although it is only in part.
TEST_F(NarrowParametersTest, NoUpdateWritesThemIfThatOfAnotherGroupCannot) {
  recipe_.optimizer.name = "adam";
  config::OptimizerGroup biases;
  biases.name = "rmsprop";
  biases.lr = 0.005;
  biases.parameters = {"*.bias"};
  recipe_.optimizer.groups = {biases};
  exec::DeviceTarget target(test::open_device("reference"), {.tune = exec::Tune::kOff});
  step_ = compile_step({model_, recipe_, strategy_, StepForm{Purpose::kTraining, 4}}, target);
  ASSERT_EQ(nodes(RT_OP_ADAMW, Phase::kUpdate).size(), 1u);
  for (const Node& node : step_.graph.nodes) {
    if (node.phase != Phase::kUpdate) continue;
    for (const ValueId v : node.outputs)
      EXPECT_NE(step_.graph.storage(v), step_.values.buffers.narrow) << node.op;
  }
  EXPECT_THAT(step_.notes, testing::Contains(testing::HasSubstr("after each update")));
}

}  // namespace
}  // namespace runtime::step
