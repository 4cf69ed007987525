// extends, --set and presets.
#include <gmock/gmock.h>

#include "tests/runtime/config/support.h"

namespace runtime::config::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

class Merge : public testing::Test {
 protected:
  Config load_file(const std::string& text, const std::vector<Override>& overrides = {}) {
    return load(folder_.write("sub/main.toml", text), overrides, presets(), model::layer_types());
  }
  TemporaryFolder folder_;
};

TEST_F(Merge, LaterFilesReplaceKeyByKeyAndArraysWhole) {
  folder_.write("a.toml", kWhole +
                              "optimizer = { lr = 0.5, momentum = 0.9 }\n"
                              "plugins.require = [\"a\", \"b\"]\n");
  folder_.write("b.toml", "optimizer.lr = 0.25\nplugins.require = [\"c\"]\n");
  const Config config =
      load_file("extends = [\"../a.toml\", \"../b.toml\"]\ntraining.epochs = 3\n");
  EXPECT_EQ(config.name, "main");
  EXPECT_EQ(config.optimizer.lr, 0.25);
  EXPECT_EQ(config.optimizer.momentum, 0.9);
  EXPECT_EQ(config.training.global_batch_size, 8);
  EXPECT_EQ(config.training.epochs, 3);
  EXPECT_THAT(config.plugins.require, ElementsAre("c"));
}

TEST_F(Merge, PathsBelongToTheFileThatSaysThem) {
  folder_.write("base/a.toml", kWhole + "plugins.path = [\"p\", \"/q\"]\n");
  const Config config =
      load_file("extends = \"../base/a.toml\"\nmodel.init_from = \"w.safetensors\"\n");
  EXPECT_THAT(config.plugins.path, ElementsAre(folder_.path() + "/base/p", "/q"));
  EXPECT_EQ(config.model.init_from, folder_.path() + "/sub/w.safetensors");
}

TEST_F(Merge, DataBesideTheFileThatSaysThemAreFoundThereElseTheirPathStays) {
  folder_.write("base/x.npy", "");
  folder_.write("sub/y.npy", "");
  folder_.write("base/a.toml", kModel + kTraining +
                                   "[dataset]\nformat = \"npy\"\npath = \"x.npy\"\n"
                                   "target_path = \"y.npy\"\nvalidation_path = \"../sub/y.npy\"\n"
                                   "validation_target_path = \"/x.npy\"\n");
  const Config config = load_file("extends = \"../base/a.toml\"\n");
  EXPECT_EQ(config.dataset.path, folder_.path() + "/base/x.npy");
  EXPECT_EQ(config.dataset.target_path, "y.npy");
  EXPECT_EQ(config.dataset.validation_path, folder_.path() + "/sub/y.npy");
  EXPECT_EQ(config.dataset.validation_target_path, "/x.npy");
}

TEST_F(Merge, OneOfTwoExclusiveKeysReplacesTheOtherInALaterFile) {
  folder_.write("a.toml", kWhole + "training.epochs = 3\n");
  const Config config = load_file(
      "extends = [\"../a.toml\"]\ntraining.steps = 7\n"
      "model = { input = [3], layers = [{ type = \"relu\" }] }\n");
  EXPECT_EQ(config.training.epochs, 0);
  EXPECT_EQ(config.training.steps, 7);
  EXPECT_EQ(config.model.preset, "");
  EXPECT_EQ(config.model.layers.size(), 1u);
}

TEST_F(Merge, APresetReplacesLayersAndTheirInput) {
  const std::string layers = "model = { input = [3], layers = [{ type = \"relu\" }] }\n";
  folder_.write("a.toml", kDataset + kTraining + layers);
  const Config config = load_file("extends = [\"../a.toml\"]\nmodel.preset = \"mlp\"\n");
  EXPECT_THAT(config.model.input, ElementsAre(1, 28, 28));
  EXPECT_EQ(config.model.preset, "mlp");
  EXPECT_EQ(config.model.layers.size(), 4u);
}

TEST_F(Merge, AnotherDataSetReplacesWhatDescribesTheFirst) {
  folder_.write("a.toml", kModel + kTraining +
                              "dataset = { format = \"npy\", path = \"x\", target_path = \"y\", "
                              "mean = [1], last_batch = \"drop\", validation_split = 0.5 }\n");
  const Config config = load_file("extends = \"../a.toml\"\n" + kDataset);
  EXPECT_EQ(config.dataset.name, "fashion_mnist");
  EXPECT_EQ(config.dataset.format, "");
  EXPECT_EQ(config.dataset.path, "");
  EXPECT_TRUE(config.dataset.mean.empty());
  EXPECT_EQ(config.dataset.last_batch, "drop");
  EXPECT_EQ(config.dataset.validation_split, 0.5);
}

TEST_F(Merge, TheSameDataSetKeepsWhatDescribesIt) {
  folder_.write("a.toml", kWhole + "dataset.mean = [0.5]\n");
  const Config config = load_file("extends = \"../a.toml\"\n" + kDataset);
  EXPECT_EQ(config.dataset.mean, std::vector<double>{0.5});
}

TEST_F(Merge, WhatTheModelSaysGoesBeforeThePreset) {
  const Config config = load_file(kWhole + "model.input = [1, 32, 32]\n");
  EXPECT_THAT(config.model.input, ElementsAre(1, 32, 32));
  EXPECT_EQ(config.model.layers.size(), 7u);
}

TEST_F(Merge, OptionsOfAPluginMergeOneByOne) {
  folder_.write("a.toml", kWhole + "[device.cpu]\na = 1\nb = 2\n");
  const Config config =
      load_file("extends = \"../a.toml\"\n[device.cpu]\nb = 3\n", {{"device.cpu.c", "4"}});
  const auto& options = config.device.options.at("cpu");
  EXPECT_EQ(options.at("a"), "1");
  EXPECT_EQ(options.at("b"), "3");
  EXPECT_EQ(options.at("c"), "4");
}

TEST_F(Merge, OptionsOfACommunicationPluginMergeOneByOne) {
  folder_.write("a.toml", kWhole + "[comm.gloo]\na = 1\nb = 2\n");
  const Config config =
      load_file("extends = \"../a.toml\"\n[comm.gloo]\nb = 3\n",
                {{"comm.gloo.c", "4"}, {"comm.gloo.d", "5"}, {"comm.mpi.e", "6"}});
  EXPECT_THAT(config.comm.options.at("gloo"),
              ElementsAre(Pair("a", "1"), Pair("b", "3"), Pair("c", "4"), Pair("d", "5")));
  EXPECT_THAT(config.comm.options.at("mpi"), ElementsAre(Pair("e", "6")));
}

TEST_F(Merge, OptionsOfAReaderBelongToItsFormat) {
  const std::string data = "[dataset]\nformat = \"libsvm.text\"\npath = \"a\"\n";
  folder_.write("a.toml", kModel + kTraining + data + "[dataset.libsvm]\na = 1\nb = 2\n");
  const std::string extends = "extends = \"../a.toml\"\n";
  const Config config = load_file(extends + "[dataset.libsvm]\nb = 3\n");
  EXPECT_THAT(config.dataset.options.at("libsvm"), ElementsAre(Pair("a", "1"), Pair("b", "3")));
  EXPECT_EQ(read(to_toml(config)).dataset.options, config.dataset.options);
  EXPECT_TRUE(load_file(extends + "dataset.name = \"mnist\"\n").dataset.options.empty());
}

TEST_F(Merge, DeterministicImpliesSyncBatchNormWhereThereIsBatchNorm) {
  const auto resolved = [&](const std::string& layer, const std::string& deterministic) {
    return load_file(kDataset + kTraining + "model = { input = [3], layers = [" + layer + "] }\n",
                     {{"debug.deterministic", deterministic}});
  };
  const std::string inside = "{ type = \"residual\", layers = [{ type = \"batch_norm\" }] }";
  EXPECT_TRUE(resolved(inside, "true").parallelism.sync_batch_norm);
  EXPECT_FALSE(resolved(inside, "false").parallelism.sync_batch_norm);
  EXPECT_FALSE(resolved("{ type = \"relu\" }", "true").parallelism.sync_batch_norm);
}

TEST_F(Merge, OverridesAreTomlOrBareWords) {
  const Config config = load_file(kWhole, {{"optimizer.lr", "1e-3"},
                                           {"device.backend", "reference"},
                                           {"job.description", "two words"},
                                           {"job.dump_folder", "/var/a-b.c"},
                                           {"dataset.mean", "[0.5]"},
                                           {"model.init", "{ normal = 0.01 }"},
                                           {"debug.deterministic", "true"},
                                           {"training.epochs", "2"},
                                           {"training.epochs", "3"}});
  EXPECT_EQ(config.optimizer.lr, 1e-3);
  EXPECT_EQ(config.device.backend, "reference");
  EXPECT_EQ(config.job.description, "two words");
  EXPECT_EQ(config.job.dump_folder, "/var/a-b.c");
  EXPECT_THAT(config.dataset.mean, ElementsAre(0.5));
  EXPECT_EQ(config.model.init, (Init{"normal", 0.01}));
  EXPECT_TRUE(config.debug.deterministic);
  EXPECT_EQ(config.training.epochs, 3);  // the last one takes effect
}

TEST_F(Merge, AKeyOfTextTakesTheTextOfTheCommandLine) {
  for (const char* text : {"2026-11-27", "2026", "1e5", "true", "-1", "[a]", "a # b", ""}) {
    EXPECT_EQ(load_file(kWhole, {{"job.description", text}}).job.description, text);
    EXPECT_EQ(load_file(kWhole, {{"optimizer.lr", "2"}}).optimizer.lr, 2);
  }
  EXPECT_EQ(load_file(kWhole, {{"job.description", "\"a\\tb\""}}).job.description, "a\tb");
}

TEST_F(Merge, AnOverriddenInitIsReplacedAsAWhole) {
  const Config config =
      load_file(kWhole + "model.init = { normal = 1 }\n", {{"model.init.uniform", "2"}});
  EXPECT_EQ(config.model.init, (Init{"uniform", 2}));
}

TEST_F(Merge, StepsOnTheCommandLineReplaceEpochsOfTheFile) {
  const Config config = load_file(kWhole + "training.epochs = 2\n", {{"training.steps", "5"}});
  EXPECT_EQ(config.training.epochs, 0);
  EXPECT_EQ(config.training.steps, 5);
}

TEST_F(Merge, ErrorsInAnExtendedFileNameThatFile) {
  const std::string base = folder_.write("a.toml", kWhole + "optimizer.lr = \"x\"\n");
  const auto message = message_of([&] { load_file("extends = \"../a.toml\"\n"); });
  EXPECT_THAT(message, HasSubstr("a.toml:4:16: optimizer.lr: wrong value: got string \"x\""));
}

}  // namespace
}  // namespace runtime::config::test
