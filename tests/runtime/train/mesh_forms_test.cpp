// Forms of a step on meshes equal those of one rank; and the comparison detects a fault in the data
// of one rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"
#include "tests/runtime/train/job.h"
#include "tests/runtime/train/mesh_nets.h"

namespace runtime::train {
namespace {

struct StepForm {
  const char* name;
  int ranks;
  Settings settings;     // only for the mesh
  Settings common = {};  // for the mesh and for one rank
};

Settings zero(int stage) {
  return {{"parallelism.zero_stage", std::to_string(stage)}, {"comm.bucket_mb", "0.0005"}};
}

const Settings kZero = zero(1);
const Settings kAdamw = {{"optimizer.name", "adamw"},
                         {"optimizer.lr", "0.01"},
                         {"optimizer.weight_decay", "0.1"},
                         {"optimizer.weight_decay_on", "matrices"}};
const Settings kClip = {{"training.max_norm", "0.05"}};
const Settings kRecompute = {{"training.recompute", "blocks"}};
const Settings kMicroSteps = {{"training.micro_batch_size", "3"}};

class MeshForms : public testing::TestWithParam<StepForm> {};

INSTANTIATE_TEST_SUITE_P(
    Mesh, MeshForms,
    testing::Values(
        StepForm{"ZeroTensor2", 2, mesh(2, 1) + kZero, kAdamw},
        StepForm{"ZeroPipeline2", 2, mesh(1, 2) + kZero, kAdamw},
        StepForm{"ZeroData2Tensor2", 4, mesh(2, 1) + kZero, kAdamw},
        StepForm{"ZeroData2Tensor2Clipped", 4, mesh(2, 1) + kZero, kAdamw + kClip},
        StepForm{"ZeroData2Pipeline2", 4, mesh(1, 2) + kZero, kAdamw},
        StepForm{"ZeroData2Pipeline2Clipped", 4, mesh(1, 2) + kZero, kAdamw + kClip},
        StepForm{"ZeroData2Tensor2Pipeline2", 8, mesh(2, 2) + kZero, kAdamw + kClip},
        StepForm{"Zero2Data2Tensor2", 4, mesh(2, 1) + zero(2), kAdamw + kClip},
        StepForm{"Zero3Data2Tensor2", 4, mesh(2, 1) + zero(3), kAdamw + kClip},
        StepForm{"Zero2Data2Pipeline2", 4, mesh(1, 2) + zero(2), kAdamw + kClip},
        StepForm{"Zero3Data2Pipeline2", 4, mesh(1, 2) + zero(3), kAdamw + kClip},
        StepForm{"Zero2Data2Pipeline2Interleaved", 4, mesh(1, 2) + kInterleaved + zero(2), kAdamw},
        StepForm{"Zero3Data2Pipeline2Interleaved", 4, mesh(1, 2) + kInterleaved + zero(3), kAdamw},
        StepForm{"Zero2Data2Tensor2Pipeline2", 8, mesh(2, 2) + zero(2), kAdamw + kClip},
        StepForm{"Zero3Data2Tensor2Pipeline2", 8, mesh(2, 2) + zero(3), kAdamw + kClip},
        StepForm{"Zero3Data4Pipeline2InPairs", 8,
                 mesh(1, 2) + zero(3) + Settings{{"parallelism.zero_ranks", "2"}}, kAdamw + kClip},
        StepForm{"Zero2Data2Pipeline2NoOverlap", 4,
                 mesh(1, 2) + zero(2) + Settings{{"comm.overlap", "false"}}, kAdamw},
        StepForm{"Zero3Data2Pipeline2Recompute", 4, mesh(1, 2) + zero(3) + kRecompute, kAdamw},
        StepForm{"RecomputeTensor2", 2, mesh(2, 1) + kRecompute},
        StepForm{"RecomputePipeline2", 2, mesh(1, 2) + kRecompute},
        StepForm{"RecomputePipeline2Interleaved", 2, mesh(1, 2) + kInterleaved + kRecompute},
        StepForm{"RecomputeTensor2Pipeline2", 4, mesh(2, 2) + kRecompute},
        StepForm{"MicroStepsTensor2", 2, mesh(2, 1) + kMicroSteps},
        StepForm{"MicroStepsData2Tensor2", 4, mesh(2, 1) + kMicroSteps + kZero, kAdamw + kClip},
        StepForm{"MicroBatches3Pipeline2", 2,
                 mesh(1, 2) + Settings{{"parallelism.microbatches", "3"}}},
        StepForm{"Pipeline4Interleaved", 4, mesh(1, 4) + kInterleaved},
        StepForm{"Tensor2Pipeline2Interleaved", 4, mesh(2, 2) + kInterleaved},
        StepForm{"Data2Pipeline2Interleaved", 4, mesh(1, 2) + kInterleaved + kZero, kAdamw + kClip},
        StepForm{"NoOverlapTensor2", 2, mesh(2, 1) + Settings{{"comm.overlap", "false"}}},
        StepForm{"FreezePipeline2", 2, mesh(1, 2), {{"model.freeze", "[\"h.0.*\", \"h.1.*\"]"}}},
        StepForm{"FreezeTensor2", 2, mesh(2, 1), {{"model.freeze", "[\"h.*.c_attn*\"]"}}},
        StepForm{"PadPipeline2", 2, mesh(1, 2), {{"dataset.last_batch", "pad"}}}),
    [](const auto& info) { return info.param.name; });

TEST_P(MeshForms, GptEqualsOneRank) {
  const GptFile file;
  const StepForm& form = GetParam();
  const Settings common = form.common + Settings{{"dataset.validation_split", "0.1"}};
  const Trace one = trace(file.toml(), 1, 6, common);
  const Difference d =
      largest_difference(trace(file.toml(), form.ranks, 6, common + form.settings), one);
  EXPECT_LT(d.relative, kFloat64Tolerance) << d.name;
  EXPECT_LT(mean_loss(one, 4, 2), mean_loss(one, 0, 2)) << "it has learned";
}

// An evaluation has no dropout, but it has to split the weights as training does.
TEST(MeshDropout, OfUnevenHeadsIsEvaluatedWithTheSameWeights) {
  const GptFile file;
  std::string toml = file.toml();
  const auto change = [&](const std::string& from, const std::string& to) {
    toml.replace(toml.find(from), from.size(), to);
  };
  change("features = 24", "features = 36");
  change("heads = 2, causal = true", "heads = 3, causal = true, dropout = 0.2");
  const Settings common = {{"dataset.validation_split", "0.1"}};
  const Trace one = trace(toml, 1, 3, common);
  const Difference d = largest_difference(trace(toml, 2, 3, common + mesh(2, 1)), one);
  EXPECT_LT(d.relative, kFloat64Tolerance) << d.name;
}

// Statistics are gathered and updated once, however often activations are computed.
TEST(MeshResNet, RecomputationChangesNothing) {
  for (const auto& [tensor, pipeline] : {std::pair(2, 1), {1, 2}, {2, 2}}) {
    const Settings settings = mesh(tensor, pipeline);
    const Trace expected = trace(kSmallResNet, tensor * pipeline, 4, settings);
    const Trace again = trace(kSmallResNet, tensor * pipeline, 4, settings + kRecompute);
    EXPECT_TRUE(same_bits(again, expected)) << tensor << " x " << pipeline;
  }
}

TEST(MeshMicroBatches, APipelineRefusesTheirSize) {
  EXPECT_THAT(test::message_of<ConfigurationError>(
                  [] { traced(kSmallLeNet, 2, 1, mesh(1, 2) + kMicroSteps); }),
              testing::AllOf(testing::HasSubstr("training.micro_batch_size"),
                             testing::HasSubstr("set parallelism.microbatches")));
}

// One wrong number in one rank's slice of one parameter.
TEST(MeshFaults, AWrongShardIsSeen) {
  struct Fault {
    Settings mesh;
    const char* parameter;
  };
  for (const Fault& fault : {Fault{mesh(2, 1), "conv2.weight"}, Fault{mesh(2, 1), "fc1.weight"},
                             Fault{mesh(1, 2), "fc2.weight"}}) {
    const Trace one = trace(kSmallLeNet, 1, 3);
    TraceOptions o = traced(kSmallLeNet, 2, 3, fault.mesh);
    EXPECT_LT(largest_difference(record(o).trace, one).relative, kFloat64Tolerance);
    o.flip_after = 0;
    o.flipped = fault.parameter;
    const Difference d = largest_difference(record(o).trace, one);
    EXPECT_FALSE(d.relative < 1e-4) << fault.parameter << ": " << d.relative << " of " << d.name;
  }
}

TEST(MeshFaults, AWrongShardIsFoundInItsReplica) {
  TraceOptions o = traced(kSmallLeNet, 4, 2, mesh(2, 1));
  o.flip_after = 0;
  o.flipped = "fc1.weight";
  EXPECT_THAT(test::message_of<NumericError>([&] { record(o); }),
              testing::HasSubstr("after step 1 the parameters of rank 3 differ"));
}

TEST(MeshFaults, ASumLeftOutIsSeen) {
  const Trace one = trace(kSmallLeNet, 1, 2);
  for (const char* layer : {"conv2", "fc2"}) {
    TraceOptions o = traced(kSmallLeNet, 2, 2, mesh(2, 1));
    o.left_out = layer;
    const Difference d = largest_difference(record(o).trace, one);
    EXPECT_FALSE(d.relative < 1e-2) << layer << ": " << d.relative << " of " << d.name;
  }
}

}  // namespace
}  // namespace runtime::train
