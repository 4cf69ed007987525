// Checks keys, defaults and errors of sweep files.
#include "tools/sweep/sweep_file.h"

#include <gmock/gmock.h>

#include "runtime/error.h"
#include "tests/tools/sweep/files.h"

namespace tools::sweep {
namespace {

using trials::Json;
using Kind = Parameter::Kind;

Sweep read(const std::string& text) {
  const Folder folder;
  return read_sweep(folder.write("my.toml", text));
}

TEST(SweepFile, ReadsEveryKey) {
  const Folder folder;
  const std::string path = folder.write("sub/my.toml", R"(
description = "what it is for"
config = "../base.toml"
folder = "out"
monitor = "validation_accuracy"
mode = "min"
select = "best"
parallel = 3
devices = ["cuda:0", "cuda:1"]
timeout_s = 1.5
[set]
"training.epochs" = 2
lr_scheduler.name = "cosine"
model.init = { normal = 0.01 }
[search]
method = "random"
trials = 20
seed = 7
[halving]
epochs = [1, 3, 9]
factor = 4
[parameters]
"optimizer.lr" = { log_uniform = [1e-4, 1] }
launch.ranks = [1, 2]
optimizer.momentum = { uniform = [0, 0.9] }
"model.preset" = { values = ["mlp", "lenet"] }
training.global_batch_size = { integer = [16, 64] }
device.backend = { devices = "usable" }
device.cuda.tf32 = [true, false]
)");
  const Sweep s = read_sweep(path);
  EXPECT_EQ(s.name, "my");
  EXPECT_EQ(s.config, folder.path("base.toml"));
  EXPECT_EQ(s.folder, "out");
  EXPECT_EQ(s.monitor, "validation_accuracy");
  EXPECT_FALSE(s.maximize) << "mode = min goes before the monitor's own";
  EXPECT_TRUE(s.take_best);
  EXPECT_EQ(s.parallel, 3);
  EXPECT_THAT(s.devices, testing::ElementsAre("cuda:0", "cuda:1"));
  EXPECT_EQ(s.timeout_s, 1.5);
  EXPECT_THAT(s.set,
              testing::UnorderedElementsAre(testing::Pair("training.epochs", Json(2)),
                                            testing::Pair("lr_scheduler.name", Json("cosine")),
                                            testing::Pair("model.init", Json({{"normal", 0.01}}))));
  EXPECT_TRUE(s.random);
  EXPECT_EQ(s.trials, 20);
  EXPECT_EQ(s.seed, 7u);
  EXPECT_EQ(s.halving.unit, "epochs");
  EXPECT_THAT(s.halving.rungs, testing::ElementsAre(1, 3, 9));
  EXPECT_EQ(s.halving.factor, 4);
  const auto key_and_kind = [](const char* key, Kind kind) {
    return testing::AllOf(testing::Field(&Parameter::key, key),
                          testing::Field(&Parameter::kind, kind));
  };
  EXPECT_THAT(s.parameters,
              testing::ElementsAre(key_and_kind("optimizer.lr", Kind::kLogUniform),
                                   key_and_kind("launch.ranks", Kind::kValues),
                                   key_and_kind("optimizer.momentum", Kind::kUniform),
                                   key_and_kind("model.preset", Kind::kValues),
                                   key_and_kind("training.global_batch_size", Kind::kInteger),
                                   key_and_kind("device.backend", Kind::kDevices),
                                   key_and_kind("device.cuda.tf32", Kind::kValues)))
      << "in the order of the file";
  EXPECT_EQ(s.parameters[0].low, 1e-4);
  EXPECT_EQ(s.parameters[0].high, 1);
  EXPECT_THAT(s.parameters[1].values, testing::ElementsAre(Json(1), Json(2)));
}

TEST(SweepFile, HasDefaults) {
  const Sweep s = read("config = \"/base.toml\"\n[parameters]\noptimizer.lr = [0.1]\n");
  EXPECT_EQ(s.config, "/base.toml");
  EXPECT_EQ(s.folder, "outputs/sweeps/my");
  EXPECT_EQ(s.monitor, "validation_loss");
  EXPECT_FALSE(s.maximize);
  EXPECT_FALSE(s.random);
  EXPECT_FALSE(s.take_best);
  EXPECT_EQ(s.parallel, 1);
  EXPECT_TRUE(s.halving.rungs.empty());
  const std::string rest = "\nconfig = \"a\"\n[parameters]\noptimizer.lr = [0.1]\n";
  EXPECT_TRUE(read("monitor = \"validation_accuracy\"" + rest).maximize);
  EXPECT_TRUE(read("monitor = \"samples_per_second\"" + rest).maximize);
  EXPECT_FALSE(read("monitor = \"loss\"" + rest).maximize);
  EXPECT_TRUE(read("monitor = \"validation_f1\"\nmode = \"max\"" + rest).maximize);
  EXPECT_TRUE(read("monitor = \"loss\"\nmode = \"max\"" + rest).maximize);
}

TEST(SweepFile, ErrorsNameThePlaceAndWhatIsExpected) {
  const std::string head = "config = \"a.toml\"\n", some = "[parameters]\noptimizer.lr = [0.1]\n";
  const std::pair<std::string, std::string> cases[] = {
      {head + "paralel = 2\n" + some,
       "my.toml:2:1: paralel: unknown key, did you mean \"parallel\"?"},
      {head + "parallel = 0\n" + some, "my.toml:2:12: parallel: wrong value: got integer 0"},
      {head + "mode = \"largest\"\n" + some, "expected \"min\" or \"max\""},
      {head + "[search]\nmethod = 3\n" + some, "expected \"grid\" or \"random\""},
      {head + "[search]\nmethod = \"random\"\n" + some, "search.trials: missing"},
      {head + "[search]\ntrials = 3\n" + some, "search.trials: is not used by method = \"grid\""},
      {head + "[search]\nseeds = 3\n" + some, "search.seeds: unknown key"},
      {head + "[halving]\nsteps = [3]\n" + some, "at least two rising integers"},
      {head + "[halving]\nsteps = [3, 3]\n" + some, "at least two rising integers"},
      {head + "[halving]\nsteps = [1, 2]\nepochs = [1, 2]\n" + some, "either steps or epochs"},
      {head + "timeout_s = -1\n" + some, "a number of seconds, at least 0"},
      {head + "devices = [1]\n" + some, "a list of strings"},
      {head + "[parameters]\noptimizer.lr = { uniform = [0, 1] }\n", "needs method = \"random\""},
      {head + "[parameters]\noptimizer.lr = { uniform = [1, 0] }\n", "the smaller number first"},
      {head + "[parameters]\noptimizer.lr = { log_uniform = [0, 1] }\n", "numbers above 0"},
      {head + "[parameters]\noptimizer.lr = { integer = [0, 1.5] }\n", "two integers"},
      {head + "[parameters]\noptimizer.lr = { log_unifrom = [1, 2] }\n",
       "a list of values, or a table"},
      {head + "[parameters]\noptimizer.lr = []\n", "at least one value"},
      {head + "[parameters]\noptimizer.lr = 0.1\n", "a list of values, or a table"},
      {head + "[parameters]\nlr = [0.1]\n", "expected section.key"},
      {head + "[parameters]\njob.dump_folder = [\"a\"]\n", "is set by the sweep itself"},
      {head + "[set]\n\"checkpoint.resume\" = \"auto\"\n" + some, "is set by the sweep itself"},
      {head + "[set]\noptimizer.lr = 1\n" + some, "is in [parameters] and in [set]"},
      {head + "[set]\na.b = 2020-01-01\n" + some, "got date"},
      {head + "monitor = \"epoch_seconds\"\n" + some, "mode: missing: whether \"min\" or"},
      {head, "parameters: missing"},
      {some, "config: missing"},
      {"= 3", "my.toml:1:"}};
  for (const auto& [text, message] : cases) {
    try {
      read(text);
      ADD_FAILURE() << text;
    } catch (const runtime::ConfigurationError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(message)) << text;
    }
  }
  EXPECT_THROW(read_sweep("/dev/null/file.toml"), runtime::ConfigurationError);
  EXPECT_THROW(read_sweep("/"), runtime::ConfigurationError);
}

}  // namespace
}  // namespace tools::sweep
