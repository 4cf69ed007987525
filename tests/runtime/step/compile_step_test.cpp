// Checks the list of passes, and that a fault names the pass that made it.
#include "runtime/step/compile_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"
#include "runtime/exec/device_target.h"
#include "tests/runtime/support/devices.h"

namespace runtime::step {
namespace {

model::Model one_layer() {
  model::Layer layer;
  layer.kind = model::Linear{3, true};
  layer.name = "fc";
  return {{6}, {layer}, {}};
}

TEST(CompileStep, RunsEachPassOnce) {
  const model::Model model = one_layer();
  const TrainingSpec training;
  const Strategy strategy;
  const StepForm form{Purpose::kTraining, 4};
  exec::DeviceTarget target(test::open_device("reference"), {.tune = exec::Tune::kOff});
  std::vector<std::string> passes;
  std::vector<size_t> nodes;
  const Step step = compile_step({model, training, strategy, form}, target,
                                 [&](const char* pass, const Step& so_far) {
                                   passes.emplace_back(pass);
                                   nodes.push_back(so_far.graph.nodes.size());
                                 });
  EXPECT_THAT(passes,
              testing::ElementsAre(
                  "forward", "add_loss", "check_task", "split_tensors", "narrow_activations",
                  "differentiate", "cut_stages", "place_in_flat_buffers", "narrow_parameters",
                  "fold_batch_norms", "add_update", "narrow_in_update", "lower", "fuse",
                  "choose_layouts", "recompute", "partition_gradients", "repeat_step",
                  "gather_parameters", "schedule_collectives", "lower_rest"));
  EXPECT_LT(nodes[0], nodes[1]);  // the loss
  EXPECT_LT(nodes[1], nodes[5]);  // the backward pass
  EXPECT_EQ(nodes.back(), step.graph.nodes.size());
  EXPECT_EQ(step.values.shards.size(), 1u);
}

// A target that adds a fault to the graph while a pass asks it.
class Vandal : public exec::DeviceTarget {
 public:
  Vandal() : DeviceTarget(test::open_device("reference"), {.tune = exec::Tune::kOff}) {}
  void remember(const graph::Graph& graph, const graph::LayoutDecision&) override {
    const_cast<graph::Graph&>(graph).nodes[1].inputs[0] =
        const_cast<graph::Graph&>(graph).nodes.back().outputs[0];
  }
};

TEST(CompileStep, NamesThePassThatLeavesABrokenGraph) {
  const model::Model model = one_layer();
  const TrainingSpec training;
  const Strategy strategy;
  const StepForm form{Purpose::kEvaluation, 4};
  Vandal target;
  EXPECT_THAT(test::message_of<InternalError>([&] {
                compile_step({model, training, strategy, form}, target);
              }),
              testing::HasSubstr("the pass 'choose_layouts' left a broken graph: node 1"));
}

}  // namespace
}  // namespace runtime::step
