// Runs each command of the program as a user would, and checks what it prints and writes.
#include <signal.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/data/safetensors.h"
#include "tests/runtime/cli/program.h"

namespace runtime::cli {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class Commands : public ProgramTest {};

// The commands that the program lists: the first words below "Subcommands:".
std::vector<std::string> listed_commands(const std::string& help) {
  std::istringstream lines(help.substr(help.find("Subcommands:\n")));
  std::vector<std::string> commands;
  std::string line;
  for (std::getline(lines, line); std::getline(lines, line) && line.starts_with("  ");)
    commands.push_back(line.substr(2, line.find(' ', 2) - 2));
  return commands;
}

TEST_F(Commands, EveryCommandExplainsItself) {
  const std::string all = output({"--help"});
  EXPECT_THAT(all, AllOf(HasSubstr("Subcommands:\n  train"), HasSubstr("Exit codes"),
                         HasSubstr("Examples")));
  const std::string document = test::read_text(CONFIGS_FOLDER "/../runtime/cli/README.md");
  EXPECT_GT(listed_commands(all).size(), 10u);
  for (const std::string& command : listed_commands(all)) {
    const std::string help = output({command, "--help"});
    EXPECT_THAT(help, HasSubstr("Example")) << command;
    EXPECT_THAT(help, HasSubstr("runtime " + command)) << command;
    EXPECT_THAT(document, ContainsRegex("\n\\| `" + command + "[ `]"))
        << "runtime/cli/README.md has no row of " << command;
  }
  EXPECT_THAT(output({"--version"}), testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST_F(Commands, TrainWritesWeightsMetricsAndConfiguration) {
  const test::ProcessResult r = run({"train", job_, "--set", "job.dump_folder=run"});
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_THAT(r.err, AllOf(HasSubstr("training tiny on reference:0"), HasSubstr("53 parameters"),
                           HasSubstr("done: 12 steps"), HasSubstr("next: runtime evaluate")));
  // Standard output is no terminal, so it has JSON lines only.
  std::istringstream lines(r.out);
  std::string line, last;
  while (std::getline(lines, line)) {
    const json j = json::parse(line);
    for (const char* key : {"step", "epoch", "loss", "lr", "samples_per_second"})
      EXPECT_TRUE(j.contains(key)) << line;
    last = line;
  }
  EXPECT_EQ(json::parse(last)["step"], 12);
  EXPECT_TRUE(json::parse(last).contains("validation_accuracy"));
  EXPECT_EQ(test::read_text(folder_.path() / "run/metrics.jsonl"), r.out);
  EXPECT_EQ(
      data::read_safetensors((folder_.path() / "run/weights.safetensors").string()).tensors.size(),
      4u);
  output({"config", "check", "run/config.toml"});
  EXPECT_EQ(files(), (std::set<std::string>{"tiny.toml", "run", "cache"}));
}

// OMP_DISPLAY_ENV makes GNU's OpenMP library print its settings when it is loaded.
TEST_F(Commands, WaitingThreadsPollForAShortTimeUnlessTheUserDecides) {
  if (!test::has_backend("cpu")) GTEST_SKIP() << "the cpu backend was not built";
  unsetenv("GOMP_SPINCOUNT");
  unsetenv("OMP_WAIT_POLICY");
  const auto settings = [&](std::map<std::string, std::string> environment) {
    environment["OMP_DISPLAY_ENV"] = "VERBOSE";
    return run({"train", job_, "--max-steps", "1", "--set", "device.backend=cpu"}, environment).err;
  };
  EXPECT_THAT(settings({}), HasSubstr("GOMP_SPINCOUNT = '10000'"));
  EXPECT_THAT(settings({{"GOMP_SPINCOUNT", "77"}}), HasSubstr("GOMP_SPINCOUNT = '77'"));
  EXPECT_THAT(settings({{"OMP_WAIT_POLICY", "PASSIVE"}}), HasSubstr("GOMP_SPINCOUNT = '0'"));
}

TEST_F(Commands, WithoutDumpFolderTheRunGoesIntoOutputs) {
  output({"train", job_, "--max-steps", "1"});
  output({"train", job_, "--max-steps", "1"});  // perhaps in the same second
  int runs = 0;
  for (const auto& e : std::filesystem::directory_iterator(folder_.path() / "outputs/tiny")) {
    EXPECT_TRUE(std::filesystem::exists(e.path() / "weights.safetensors"));
    ++runs;
  }
  EXPECT_EQ(runs, 2);
}

TEST_F(Commands, EvaluateGivesTheAccuracyOfTheEndOfTraining) {
  const std::string out = output({"train", job_, "--set", "job.dump_folder=run"});
  const json last = json::parse(out.substr(out.rfind('\n', out.size() - 2) + 1));
  const json e = json::parse(output({"evaluate", job_, "--weights", "run/weights.safetensors"}));
  EXPECT_EQ(e["samples"], 12);
  EXPECT_EQ(e["accuracy"], last["validation_accuracy"]);
  EXPECT_EQ(e["loss"], last["validation_loss"]);
  EXPECT_EQ(e["device"], "reference:0");
  const json train = json::parse(
      output({"evaluate", job_, "--weights", "run/weights.safetensors", "--part", "train"}));
  EXPECT_EQ(train["samples"], 48);
}

TEST_F(Commands, TrainingGoesOnFromWeights) {
  output({"train", job_, "--set", "job.dump_folder=run", "--max-steps", "3"});
  output({"train", job_, "--set", "job.dump_folder=again", "--set", "optimizer.lr=0", "--max-steps",
          "1", "--weights", "run/weights.safetensors"});
  EXPECT_EQ(test::read_text(folder_.path() / "again/weights.safetensors"),
            test::read_text(folder_.path() / "run/weights.safetensors"));
}

TEST_F(Commands, TheSameJobGivesTheSameFile) {
  for (const char* name : {"a", "b"})
    output({"train", job_, "--set", std::string("job.dump_folder=") + name});
  EXPECT_EQ(test::read_text(folder_.path() / "a/weights.safetensors"),
            test::read_text(folder_.path() / "b/weights.safetensors"));
}

TEST_F(Commands, GradientsWritesABatchWithItsGradients) {
  output({"gradients", job_, "--batch", "2", "--output", "g.safetensors"});
  const data::TensorFile file = data::read_safetensors((folder_.path() / "g.safetensors").string());
  for (const char* name : {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias", "loss", "logits",
                           "features", "labels", "weights.fc1.weight"})
    EXPECT_TRUE(file.tensors.contains(name)) << name;
  EXPECT_EQ(file.tensors.at("features").dims, (std::vector<int64_t>{8, 6}));
}

// With a learning rate of almost zero the third step still has the initial weights, so its loss
// equals that of `gradients --batch 2` if dropout draws the same masks. The file has the running
// statistics before and after the step.
TEST_F(Commands, GradientsOfABatchAreThoseOfTheStepOfThatNumber) {
  std::string toml = kTinyJob;
  toml.replace(toml.find("layers = ["), 10,
               "layers = [ { type = \"batch_norm\" }, { type = \"dropout\", probability = 0.5 },");
  folder_.write("dropout.toml", toml);
  output({"train", "dropout.toml", "--max-steps", "3", "--set", "optimizer.lr=1e-30", "--set",
          "metrics.log_every_steps=1", "--set", "job.dump_folder=run"});
  output({"gradients", "dropout.toml", "--batch", "2", "--output", "g.safetensors"});
  std::istringstream lines(test::read_text(folder_.path() / "run/metrics.jsonl"));
  std::vector<double> losses;
  for (std::string line; std::getline(lines, line);) losses.push_back(json::parse(line)["loss"]);
  ASSERT_EQ(losses.size(), 3u);
  const data::TensorFile file = data::read_safetensors((folder_.path() / "g.safetensors").string());
  const auto first = [&](const std::string& name) {
    float value = 0;
    std::memcpy(&value, file.tensors.at(name).bytes.data(), sizeof(value));
    return value;
  };
  EXPECT_NEAR(first("loss"), losses[2], 1e-5);
  EXPECT_EQ(first("weights.bn1.running_mean"), 0);
  EXPECT_NE(first("after.bn1.running_mean"), 0);
}

TEST_F(Commands, Devices) {
  const std::string out = output({"devices"});
  EXPECT_THAT(out,
              ContainsRegex("reference:0    usable     .* GiB, 1 thread, computes in float32, "
                            "float64, float16, bfloat16, also stores int32, int64, uint8, int8, "
                            "plugin reference [0-9.]+\n"));
  if (test::has_backend("cpu")) {
    EXPECT_THAT(out, ContainsRegex("cpu:0 .* GiB, [0-9]+ threads?, computes in float32, "));
  }
  EXPECT_THAT(
      output({"devices", "--path", SIMULATED_FOLDER}, {{"RUNTIME_SIMULATED_DEVICES", "3"}}),
      AllOf(
          HasSubstr("simulated:0"), Not(HasSubstr("simulated:3")),
          ContainsRegex(
              "simulated:2 .*1.0 GiB, stable id simulated:2, 1.0 GiB free, 42% busy, 55 C, 123 W, "
              "computes in float32, ")));
  EXPECT_THAT(output({"devices", "--path", FIXTURE_FOLDER "/libbroken_major.so"}),
              AllOf(HasSubstr("rejected: "), HasSubstr("libbroken_major.so")));
}

TEST_F(Commands, Plugins) {
  EXPECT_THAT(output({"plugins", "list"}), HasSubstr("reference"));
  EXPECT_THAT(output({"plugins", "info", "reference"}),
              AllOf(HasSubstr("name         reference"), HasSubstr("rt.device, rt.kernel"),
                    HasSubstr("device       reference:0 usable")));
  EXPECT_THAT(output({"plugins", "info", "local"}),
              HasSubstr("ranks are threads of one process, latency 5.0 us, bandwidth 64.0 Gbit/s"));
  // A communicator that does not know its link: what `plan` assumes is not the plugin's word.
  const std::string communicator = FIXTURE_FOLDER "/libtemplate_communicator.so";
  EXPECT_THAT(output({"plugins", "--path", communicator, "info", "template_communicator"}),
              HasSubstr("latency unknown, bandwidth unknown\n             plan assumes"));
  EXPECT_THAT(output({"plugins", "--path", SIMULATED_FOLDER, "info", "simulated"}),
              HasSubstr("device.simulated.fail_launch"));
  const std::string version = output({"--version"});
  for (const char* name : {"reference", "local"})
    EXPECT_THAT(output({"plugins", "info", name}), HasSubstr("\nversion      " + version));
}

TEST_F(Commands, CheckpointInfoNamesTheMonitoredValueAndTheBuildOfTheDevice) {
  const std::string backend = test::has_backend("cpu") ? "cpu" : "reference";
  output({"train", job_, "--set", "job.dump_folder=run", "--set", "device.backend=" + backend,
          "--set", "validation.metrics=[\"f1\"]", "--set", "validation.monitor=f1"});
  const std::string info = output({"checkpoint", "info", "run"});
  EXPECT_THAT(info, ContainsRegex("\n  validation f1: [0-9.e-]+\n"));
  EXPECT_THAT(info, AllOf(HasSubstr(backend + ":0"), Not(HasSubstr("N/A"))));
}

TEST_F(Commands, ConfigShowResolvesAndLoadsAgain) {
  const std::string shown = output({"config", "show", job_, "--set", "optimizer.lr=0.125"});
  EXPECT_THAT(shown, AllOf(HasSubstr("lr = 0.125"), HasSubstr("momentum")));
  folder_.write("shown.toml", shown);
  EXPECT_EQ(output({"config", "show", "shown.toml"}), shown);
  EXPECT_THAT(output({"config", "check", job_}), HasSubstr("tiny.toml: ok"));
}

// Keras's Sequential of 16, 32 and 2 units with a sigmoid at its end.
TEST_F(Commands, ASigmoidBeforeCrossEntropyGetsAWarning) {
  const std::string layers =
      "model.layers=[{ type = 'linear', features = 16, activation = 'relu', l2 = 0.01 }, { type = "
      "'linear', features = 32, activation = 'relu', l2 = 0.01 }, { type = 'linear', features = 3, "
      "activation = 'sigmoid' }]";
  const test::ProcessResult check = run({"config", "check", job_, "--set", layers});
  EXPECT_EQ(check.exit_code, 0);
  EXPECT_THAT(check.err,
              AllOf(HasSubstr("warning: --set model.layers: "), HasSubstr("ends with \"sigmoid\""),
                    HasSubstr("remove the sigmoid")));
  EXPECT_THAT(check.out, HasSubstr(": ok"));
  const test::ProcessResult train =
      run({"train", job_, "--max-steps", "1", "--quiet", "--set", layers});
  EXPECT_EQ(train.exit_code, 0) << train.err;
  EXPECT_THAT(train.err, HasSubstr("warning: --set model.layers: "));
  EXPECT_EQ(run({"config", "check", job_}).err, "");
}

TEST_F(Commands, EvaluatePrintsTheMetricsThatAreAskedFor) {
  output({"train", job_, "--set", "job.dump_folder=run", "--quiet"});
  const std::vector<std::string> evaluate = {"evaluate", job_, "--weights",
                                             "run/weights.safetensors", "--metrics"};
  const auto with = [&](const std::string& metrics) {
    std::vector<std::string> arguments = evaluate;
    arguments.push_back(metrics);
    return run(arguments);
  };
  const json j = json::parse(with("f1,top_2,confusion,auroc").out);
  for (const char* key : {"loss", "accuracy", "f1", "top_2", "auroc"})
    EXPECT_TRUE(j[key].is_number()) << key;
  EXPECT_EQ(j["confusion"].size(), 3u);
  EXPECT_EQ(with("top_3").exit_code, 2) << "there are three classes";
  EXPECT_THAT(with("f3").err, HasSubstr("did you mean \"f1\""));
  EXPECT_THAT(with("mse").err, HasSubstr("compares numbers"));
}

TEST_F(Commands, ConfigSchemaIsJson) {
  const json schema = json::parse(output({"config", "schema"}));
  EXPECT_TRUE(schema["properties"].contains("training"));
}

// 6 inputs, 5 hidden units, 3 outputs.
TEST_F(Commands, ModelListsTheLayers) {
  const std::string shown = output({"model", job_, "--set", "model.freeze=['*.bias']"});
  EXPECT_THAT(shown,
              AllOf(HasSubstr("matmul, add"), HasSubstr("[5]             35"),
                    HasSubstr("[3]             18"), HasSubstr("53 parameters (0.00 MiB in float"),
                    HasSubstr("of which 45 are trained")));
}

TEST_F(Commands, PlanTellsOperationsMemoryAndFlops) {
  EXPECT_THAT(
      output({"plan", job_}),
      AllOf(HasSubstr("tiny on reference:0"), HasSubstr("53 parameters"), HasSubstr("matmul"),
            HasSubstr("bias, activation"), HasSubstr("sgd"), HasSubstr("FLOP a step"),
            HasSubstr("activations"), HasSubstr("optimizer"), HasSubstr("prediction: ")));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "outputs"));
}

TEST_F(Commands, PlanListsTheKernelsOfADeviceThatTellsThem) {
  const std::vector<std::string> limits = {"--set", "cluster.memory_tbps=4", "--set",
                                           "cluster.tflops=100"};
  const auto plan = [&](const std::string& backend) {
    std::vector<std::string> arguments = {"plan", job_, "--set", "device.backend=" + backend};
    arguments.insert(arguments.end(), limits.begin(), limits.end());
    return run(arguments, {{"RUNTIME_PLUGIN_PATH", SIMULATED_FOLDER}});
  };
  EXPECT_THAT(plan("simulated").out,
              AllOf(HasSubstr("launches"), ContainsRegex("least time: [0-9.]+ ms a step"),
                    HasSubstr("at 4 TB/s and 100 TFLOP/s; gaps of 2 us")));
  EXPECT_THAT(plan("reference").out, HasSubstr("does not tell which kernels it queues"));
  const test::ProcessResult refused = run({"plan", job_, "--set", "cluster.memory_tbps=4"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("cluster.tflops"));
}

TEST_F(Commands, PlanShowsThePassesAndTheGraphAfterEach) {
  const std::string text = output({"plan", job_, "--passes", "--dump-graph", "graphs"});
  EXPECT_THAT(text, AllOf(HasSubstr("pass  "), HasSubstr("\nforward "),
                          HasSubstr("\ndifferentiate "), HasSubstr("\nchoose_layouts "),
                          HasSubstr("\nschedule_collectives "), HasSubstr("graphs are in graphs")));
  const auto graph = [&](const char* name) {
    return test::read_text(folder_.path() / "graphs" / name);
  };
  EXPECT_THAT(graph("01-forward.txt"), testing::Not(HasSubstr("backward")));
  EXPECT_THAT(graph("06-differentiate.txt"), HasSubstr("backward"));
  EXPECT_THAT(graph("11-add_update.txt"), HasSubstr("update"));
  EXPECT_THAT(graph("11-add_update.dot"), HasSubstr("digraph"));
}

TEST_F(Commands, BenchPrintsOneJsonObject) {
  const json j = json::parse(output({"bench", job_, "--steps", "5", "--json"}));
  for (const char* key : {"step_ms_median", "samples_per_second", "flops_per_second",
                          "peak_memory_bytes", "device", "world_size"})
    EXPECT_TRUE(j.contains(key)) << key;
  EXPECT_GT(j["data_wait_share"], 0);
  EXPECT_LT(j["data_wait_share"], 1);
  EXPECT_GT(j["step_ms_median"], 0);
  EXPECT_EQ(j["device"], "reference:0");
  EXPECT_FALSE(j.contains("mfu")) << "the peak of the device is not known";
  EXPECT_THAT(output({"bench", job_, "--steps", "5", "--layers"}), HasSubstr("matmul"));
  // 210 operations a sample, see model_flops_test.
  const json k = json::parse(
      output({"bench", job_, "--steps", "5", "--json", "--set", "device.peak_tflops=1e-3"}));
  const double share = k["samples_per_second"].get<double>() * 210 / 1e9;
  EXPECT_NEAR(k["mfu"].get<double>(), share, 1e-9 * share);
}

TEST_F(Commands, BenchDataMeasuresTheLoaderAlone) {
  const json j = json::parse(output({"bench", job_, "--data", "--steps", "5", "--json", "--set",
                                     "dataset.workers=3", "--set", "dataset.prefetch=2"}));
  EXPECT_EQ(j["workers"], 3);
  EXPECT_EQ(j["batches"], 5);
  const double batch_s = j["batch_ms"].get<double>() / 1e3;
  EXPECT_NEAR(j["samples_per_second"].get<double>() * batch_s, j["batch_size"].get<double>(), 1e-6);
  EXPECT_THAT(output({"bench", job_, "--data", "--set", "dataset.prefetch=0"}),
              AllOf(HasSubstr("samples/s"), HasSubstr("0 workers")));
}

TEST_F(Commands, BenchMeasuresTheForwardPassAlone) {
  const std::vector<std::string> inference = {"bench", job_, "--inference", "--steps", "5"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = inference;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  // More rows than the data set has samples.
  const json j = json::parse(output(with({"--batch", "1000", "--json"})));
  EXPECT_EQ(j["batch_size"], 1000);
  EXPECT_EQ(j["steps"], 5);
  EXPECT_NEAR(j["samples_per_second"].get<double>() * j["step_ms_median"].get<double>(), 1e6, 1);
  EXPECT_GT(j["flops_per_second"], 0);
  EXPECT_THAT(output(inference), HasSubstr("inference: "));
  EXPECT_THAT(output(with({"--layers"})),
              testing::AllOf(HasSubstr("matmul"), testing::Not(HasSubstr("sgd"))));
  EXPECT_EQ(run(with({"--nproc", "2"})).exit_code, 2);
  EXPECT_EQ(run({"bench", job_, "--batch", "1"}).exit_code, 2);
  const test::ProcessResult two = run(with({"--set", "launch.ranks=2"}));
  EXPECT_EQ(two.exit_code, 2) << two.err;
  EXPECT_THAT(two.err, HasSubstr("--inference measures one rank, but the job has 2"));
}

TEST_F(Commands, DecisionsAreKeptInTheCacheOnly) {
  if (!test::has_backend("cpu")) GTEST_SKIP() << "the cpu backend was not built";
  const test::ProcessResult r =
      run({"train", job_, "--set", "device.backend=cpu", "--set", "job.dump_folder=run"});
  ASSERT_EQ(r.exit_code, 0) << r.err;
  std::set<std::string> made = files();
  // What was measured on a busy machine is not kept.
  if ((r.out + r.err).find("the machine was busy") != std::string::npos) made.insert("cache");
  EXPECT_EQ(made, (std::set<std::string>{"tiny.toml", "run", "cache"}));
}

TEST_F(Commands, AutoTakesADeviceAndSaysWhich) {
  const test::ProcessResult r =
      run({"train", job_, "--set", "device.backend=auto", "--max-steps", "1"});
  EXPECT_EQ(r.exit_code, 0);
  const std::string best = test::has_backend("cpu") ? "cpu:0" : "reference:0";
  EXPECT_THAT(r.err, ContainsRegex("device.backend = \"auto\" takes (cuda:0|rocm:0|" + best + ")"));
}

TEST_F(Commands, ResumingARunThatIsAtItsEndSaysHowToTrainLonger) {
  const auto resume = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"train", job_,    "--resume",
                                          "auto",  "--set", "job.dump_folder=run"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const test::ProcessResult r = run(arguments);
    EXPECT_EQ(r.exit_code, 0) << r.err;
    return r.err;
  };
  EXPECT_THAT(resume({"--max-steps", "8"}),
              AllOf(HasSubstr("training loss: "), HasSubstr("the mean of steps 7 to 8"),
                    Not(HasSubstr("nothing was left"))));
  EXPECT_THAT(
      resume({"--max-steps", "8"}),
      HasSubstr("nothing was left to do: the run was already at step 8, and --max-steps is 8"));
  EXPECT_THAT(resume({}), Not(HasSubstr("nothing was left")));
  EXPECT_THAT(resume({}), AllOf(HasSubstr("already at step 12, and training.epochs is 2"),
                                HasSubstr("--set training.epochs=N")));
  EXPECT_THAT(resume({"--set", "training.epochs=3"}), HasSubstr("done: 18 steps"));
}

// ---- signals

class Signals : public ProgramTest {
 protected:
  // Starts a long run, sends the signal after the first step, and expects saved weights.
  void expect_saved(int signal, int code) {
    test::RuntimeProcess process(folder_.path(),
                                 {"train", job_, "--set", "training.epochs=100000000", "--set",
                                  "validation.every_epochs=0", "--set", "job.dump_folder=run"});
    ASSERT_TRUE(process.wait_for_text("\"step\":100,", std::chrono::seconds(60)));
    process.send(signal);
    const test::ProcessResult r = process.wait();
    EXPECT_EQ(r.exit_code, code);
    EXPECT_THAT(r.err, AllOf(HasSubstr("stopping after this step, then saving"),
                             HasSubstr("stopped by"), HasSubstr("weights saved")));
    EXPECT_EQ(data::read_safetensors((folder_.path() / "run/weights.safetensors").string())
                  .tensors.size(),
              4u);
  }
};

TEST_F(Signals, SigtermSavesAndExits143) { expect_saved(SIGTERM, 143); }
TEST_F(Signals, SigintSavesAndExits130) { expect_saved(SIGINT, 130); }

}  // namespace
}  // namespace runtime::cli
