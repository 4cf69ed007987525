// The program with the layers and optimizers of a plugin.
#include "tests/runtime/cli/program.h"

namespace runtime::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::map<std::string, std::string> kExtra = {
    {"RUNTIME_PLUGIN_PATH", FIXTURE_FOLDER "/liboperation_set.so"}};
const std::map<std::string, std::string> kShaped = {
    {"RUNTIME_PLUGIN_PATH", FIXTURE_FOLDER "/libshaped.so"}};

class OpenTypes : public ProgramTest {
 protected:
  static std::string layers(const std::string& layer) {
    return "model.layers=[" + layer + ", { type = \"linear\", features = 3 }]";
  }
};

TEST_F(OpenTypes, PluginsShowsThem) {
  EXPECT_THAT(
      output({"plugins", "info", "extra"}, kExtra),
      AllOf(HasSubstr("interfaces   rt.operations"), HasSubstr("layer        extra.swish: "),
            HasSubstr("optimizer    extra.adabelief: "), HasSubstr("features (required)"),
            HasSubstr("x[R*,D] weight[D] {eps} -> y[R*,D]")));
}

TEST_F(OpenTypes, ModelAndPlanNeedNoTraining) {
  const std::string set = layers("{ type = \"extra.rms_norm\", name = \"norm\" }");
  EXPECT_THAT(output({"model", job_, "--set", set}, kExtra),
              AllOf(HasSubstr("norm"), HasSubstr("extra.rms_norm"), HasSubstr("27 parameters")));
  EXPECT_THAT(output({"plan", job_, "--set", set, "--world-size", "2"}, kExtra),
              HasSubstr("parameters"));
}

TEST_F(OpenTypes, AreTrainedResumedAndExported) {
  const std::string text =
      kTinyJob +
      "tune = \"off\"\n[optimizer]\nname = \"extra.adabelief\"\n[optimizer.extra]\nbeta1 = 0.8\n"
      "[job]\ndump_folder = \"run\"\n[checkpoint]\ninterval_steps = 3\n";
  const std::string job = folder_.write("open.toml", text);
  const std::string set =
      layers("{ type = \"extra.gated_linear\", features = 5, name = \"gated\" }");
  output({"train", job, "--set", set, "--max-steps", "6"}, kExtra);
  output({"train", job, "--set", set, "--max-steps", "9", "--resume", "auto"}, kExtra);
  output({"checkpoint", "export", "run", "--output", "w.safetensors"}, kExtra);
  EXPECT_THAT(test::read_text(folder_.path() / "w.safetensors"), HasSubstr("gated.opening"));
  EXPECT_THAT(test::read_text(folder_.path() / "run/config.toml"),
              AllOf(HasSubstr("[optimizer.extra]"), HasSubstr("beta1 = 0.8")));
}

TEST_F(OpenTypes, AreTrainedAsynchronously) {
  output({"train", job_, "--nproc", "2", "--set", layers("{ type = \"extra.rms_norm\" }"), "--set",
          "optimizer.name=extra.signum", "--set", "optimizer.weight_decay=0.1", "--set",
          "parallelism.update=asynchronous", "--set", "comm.backend=local", "--set",
          "job.dump_folder=run"},
         kExtra);
  EXPECT_THAT(test::read_text(folder_.path() / "run/weights.safetensors"),
              HasSubstr("rms_norm1.weight"));
}

TEST_F(OpenTypes, AnUnknownOneIsTheConfigurationsFault) {
  const auto r =
      run({"config", "check", job_, "--set", layers("{ type = \"extra.swih\" }")}, kExtra);
  EXPECT_EQ(r.exit_code, 2);
  EXPECT_THAT(r.err, HasSubstr("did you mean \"extra.swish\"?"));
  const auto none = run({"config", "check", job_, "--set", "optimizer.name=nobody.sgd"}, kExtra);
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("unknown optimizer \"nobody.sgd\""));
}

TEST_F(OpenTypes, WithoutAFormulaTheShapeIsThePluginsAndTheKernelADevices) {
  const std::string set = layers(
      "{ type = \"linear\", features = 6 }, { type = \"shaped.halve\", by = 3, name = \"half\" }");
  EXPECT_THAT(output({"model", job_, "--set", set}, kShaped), HasSubstr("[2]"));
  const auto r = run({"train", job_, "--set", set}, kShaped);
  EXPECT_EQ(r.exit_code, 3);
  EXPECT_THAT(r.err, AllOf(HasSubstr("lacks operations that this model needs"),
                           HasSubstr("only on devices whose plugin knows it by name"),
                           HasSubstr("shaped.halve for layer 'half'"),
                           HasSubstr("shaped.halve_backward for layer 'half'")));
}

TEST_F(OpenTypes, AWrongShapeIsThePluginsFault) {
  const auto lies = run({"model", job_, "--set", layers("{ type = \"shaped.lies\" }")}, kShaped);
  EXPECT_EQ(lies.exit_code, 3);
  EXPECT_THAT(lies.err, HasSubstr("another type than its input's"));
  const auto fails = run({"model", job_, "--set", layers("{ type = \"shaped.fails\" }")}, kShaped);
  EXPECT_EQ(fails.exit_code, 3);
  EXPECT_THAT(fails.err, HasSubstr("three is no multiple of two"));
}

TEST_F(OpenTypes, GradientsAreComparedWithDifferences) {
  const std::string set = layers(
      "{ type = \"extra.gated_linear\", features = 30 }, { type = \"extra.rms_norm\" }, "
      "{ type = \"extra.swish\" }");
  const std::string text = output({"verify", job_, "--set", set, "--gradients"}, kExtra);
  EXPECT_THAT(text, AllOf(HasSubstr("extra.gated_linear, gradient of 'opening'"),
                          HasSubstr("6 gradients"), testing::Not(HasSubstr("WRONG"))));
  const auto none = run({"verify", job_, "--gradients"}, kExtra);
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("no layer of the model has an operation of a plugin"));
}

TEST_F(OpenTypes, AWrongGradientIsFound) {
  const auto r = run(
      {"verify", job_, "--set", layers("{ type = \"shaped.wrong\", name = \"w\" }"), "--gradients"},
      kShaped);
  EXPECT_EQ(r.exit_code, 6) << r.err;
  EXPECT_THAT(r.err, AllOf(HasSubstr("layer 'w', operation shaped.wrong, gradient of 'x'"),
                           HasSubstr("central difference")));
  EXPECT_THAT(r.out, HasSubstr("WRONG"));
}

}  // namespace
}  // namespace runtime::cli
