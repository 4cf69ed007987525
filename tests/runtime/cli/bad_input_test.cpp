// Mistakes of the user: the exit code, and the message.
#include <regex>

#include "runtime/data/safetensors.h"
#include "tests/runtime/cli/program.h"

namespace runtime::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class BadInput : public ProgramTest {
 protected:
  // Expects empty standard output, one message on standard error, and the exit code.
  void expect_fails(const std::vector<std::string>& arguments, int code,
                    const std::vector<std::string>& parts,
                    const std::map<std::string, std::string>& environment = {}) {
    const test::ProcessResult r = run(arguments, environment);
    EXPECT_EQ(r.exit_code, code) << r.err;
    for (const std::string& part : parts) EXPECT_THAT(r.err, HasSubstr(part));
    EXPECT_EQ(r.err.find("terminate called"), std::string::npos) << r.err;
  }
  std::vector<std::string> train(const std::string& setting) const {
    return {"train", job_, "--set", "job.dump_folder=run", "--set", setting};
  }
};

TEST_F(BadInput, CommandLine) {
  expect_fails({}, 2, {"subcommand"});
  expect_fails({"trian", job_}, 2, {"'trian'", "train"});
  expect_fails({"train"}, 2, {"CONFIG"});
  expect_fails({"train", job_, "--unknown"}, 2, {"--unknown"});
  expect_fails({"train", job_, "--max-steps", "-1"}, 2, {"max-steps"});
  for (const char* value : {"0", "1.5", "many"}) {
    expect_fails(
        {"train", job_, "--max-steps", value}, 2,
        {std::string("--max-steps: got ") + value + ", expected a whole number of at least 1\n"});
  }
  expect_fails({"verify", job_, "--against", "reference", "--rtol", "0"}, 2,
               {"--rtol: got 0, expected a number above 0\n"});
  expect_fails({"train", job_, "--max-restarts", "-1"}, 2,
               {"--max-restarts: got -1, expected a whole number of at least 0\n"});
  expect_fails({"predict", job_, "--weights", "w", "--temperature", "inf"}, 2,
               {"--temperature: got inf, expected a number from 0 to 1000000\n"});
  expect_fails({"train", job_, "--set", "optimizer.lr"}, 2, {"expected section.key=value"});
  expect_fails({"evaluate", job_}, 2, {"--weights"});
  expect_fails({"bench", job_, "--steps", "0"}, 2, {"steps"});
  expect_fails({"evaluate", job_, "--weights", "w", "--part", "test"}, 2, {"part"});
}

TEST_F(BadInput, Configuration) {
  expect_fails({"train", "absent.toml"}, 2, {"absent.toml"});
  folder_.write("syntax.toml", "[training\n");
  expect_fails({"train", "syntax.toml"}, 2, {"syntax.toml:1:"});
  folder_.write("key.toml", kTinyJob + "[training]\n");
  expect_fails({"train", "key.toml"}, 2, {"key.toml:"});
  folder_.write("typo.toml", kTinyJob + "[optimizer]\nmomentun = 0.9\n");
  expect_fails({"train", "typo.toml"}, 2, {"typo.toml:16:1", "optimizer.momentun", "momentum"});
  expect_fails(train("optimizer.lr=fast"), 2, {"optimizer.lr", "fast"});
  expect_fails(train("training.global_batch_size=0"), 2, {"training.global_batch_size", "0"});
  expect_fails(train("model.preset=lenet5"), 2, {"lenet"});
  expect_fails({"config", "check", "typo.toml"}, 2, {"typo.toml:16:1"});
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "run"));
}

// config check makes the model, but opens neither data nor a device.
TEST_F(BadInput, PatternsAndModelsAreCheckedWithoutData) {
  folder_.write("group.toml", kTinyJob + "[[optimizer.group]]\nparameters = [\"conv*\"]\n");
  for (const char* command : {"config check", "train"}) {
    std::vector<std::string> arguments = {"train", "group.toml"};
    if (command != std::string("train")) arguments = {"config", "check", "group.toml"};
    expect_fails(arguments, 2,
                 {"optimizer.group[0].parameters: no parameter matches \"conv*\"",
                  "of these: fc1.weight, fc1.bias, fc2.weight, fc2.bias"});
  }
  expect_fails({"config", "check", job_, "--set", "model.freeze=[\"x\"]"}, 2,
               {"model.freeze: no parameter matches \"x\"", "fc1.weight"});
  expect_fails({"config", "check", job_, "--set",
                "model.layers=[{ type = \"conv2d\", channels = 1, kernel = 3 }]"},
               2, {"layer 'conv1'", "needs an image"});
  folder_.write("good.toml", kTinyJob + "[[optimizer.group]]\nparameters = [\"*.bias\"]\n");
  output({"config", "check", "good.toml"});
}

TEST_F(BadInput, MessagesNameTheOptionThatTheUserWrote) {
  expect_fails(train("optimizer.lr=fast"), 2,
               {"error: --set optimizer.lr: wrong value: got string \"fast\""});
  expect_fails({"evaluate", job_, "--weights", "w", "--metrics", "f2"}, 2,
               {"error: --metrics: validation.metrics: got \"f2\", did you mean \"f1\""});
  expect_fails({"train", job_, "--nproc", "5000"}, 2, {"error: --nproc: launch.ranks: "});
}

TEST_F(BadInput, ABatchAboveTheDataIsAWarning) {
  const test::ProcessResult r = run(train("training.global_batch_size=100"));
  EXPECT_EQ(r.exit_code, 0);
  EXPECT_THAT(r.err, HasSubstr("warning: training.global_batch_size = 100, but there are 48 "
                               "samples to train on"));
}

TEST_F(BadInput, ModelAndDataThatDoNotFit) {
  expect_fails(train("dataset.classes=5"), 2, {"3 outputs", "5 classes"});
  expect_fails(train("training.loss=mean_squared_error"), 2,
               {"training.loss", "classification", "\"auto\""});
  expect_fails(train("model.freeze=[\"conv.*\"]"), 2, {"model.freeze", "fc1.weight"});
  expect_fails(
      train("model.layers=[{ type = \"conv2d\", name = \"first\", channels = 1, kernel = 3 }]"), 2,
      {"layer 'first'", "needs an image"});
}

TEST_F(BadInput, Backend) {
  expect_fails(train("device.backend=quantum"), 3, {"quantum", "reference"});
  expect_fails(train("device.backend=referense"), 3, {"referense", "reference"});
  expect_fails(train("device.index=7"), 3, {"7", "reference:0"});
  expect_fails(train("device.reference.threds=1"), 2,
               {"device.reference.threds", "no such key", "known: none"});
  expect_fails({"plugins", "info", "nothing"}, 3, {"nothing", "reference"});
}

TEST_F(BadInput, Plugins) {
  const std::string broken = FIXTURE_FOLDER "/libbroken_major.so";
  const std::string path = "plugins.path=[\"" + broken + "\"]";
  // The broken plugin is not required, so it causes no error.
  EXPECT_EQ(run({"train", job_, "--set", path, "--max-steps", "1"}).exit_code, 0);
  expect_fails({"train", job_, "--set", path, "--set", "plugins.require=[\"broken\"]"}, 3,
               {"broken", "libbroken_major.so"});
  folder_.write("text.so", "this is no library");
  expect_fails(
      {"train", job_, "--set", "plugins.path=[\"" + (folder_.path() / "text.so").string() + "\"]",
       "--set", "device.backend=text"},
      3, {"text.so", "cannot be loaded"});
}

TEST_F(BadInput, AFaultOfTheDevice) {
  const std::map<std::string, std::string> simulated = {{"RUNTIME_PLUGIN_PATH", SIMULATED_FOLDER}};
  for (const char* after : {"0", "20"}) {
    expect_fails({"train", job_, "--set", "device.backend=simulated", "--set",
                  "device.simulated.fail_launch=matmul", "--set",
                  std::string("device.simulated.fail_after=") + after},
                 3, {"simulated:0", "matmul"}, simulated);
  }
  expect_fails({"train", job_, "--set", "device.backend=simulated", "--set",
                "device.simulated.refuse=matmul"},
               3, {"layer 'fc1'", "matmul", "lacks operations that this model needs"}, simulated);
  EXPECT_EQ(run({"train", job_, "--set", "device.backend=simulated"}, simulated).exit_code, 0);
}

// The message names the device and the use of its memory, and advises a micro-batch that fits.
TEST_F(BadInput, ABatchThatTheDeviceHasNoRoomFor) {
  const std::map<std::string, std::string> simulated = {{"RUNTIME_PLUGIN_PATH", SIMULATED_FOLDER}};
  std::vector<std::string> arguments = {"train", job_, "--max-steps", "3"};
  for (const char* setting :
       {"device.backend=simulated", "device.simulated.memory_mb=2", "dataset.samples=65536",
        "training.global_batch_size=40000", "validation.every_epochs=0"}) {
    arguments.insert(arguments.end(), {"--set", setting});
  }
  const test::ProcessResult r = run(arguments, simulated);
  EXPECT_EQ(r.exit_code, 3) << r.err;
  EXPECT_THAT(r.err, AllOf(HasSubstr("simulated:0"), HasSubstr("40000 samples"),
                           HasSubstr("activations and workspaces")));
  std::smatch advice;
  ASSERT_TRUE(std::regex_search(r.err, advice, std::regex("training.micro_batch_size = ([0-9]+)")))
      << r.err;
  arguments.insert(arguments.end(), {"--set", "training.micro_batch_size=" + advice[1].str()});
  const test::ProcessResult smaller = run(arguments, simulated);
  EXPECT_EQ(smaller.exit_code, 0) << smaller.err;
}

TEST_F(BadInput, Data) {
  expect_fails(train("dataset.name=fashion_mnist"), 5, {"RUNTIME_DATA_PATH"},
               {{"RUNTIME_DATA_PATH", folder_.path().string()}});
  const std::string idx =
      "[dataset]\nformat = \"idx\"\npath = \"images\"\ntarget_path = \"labels\"\n";
  const std::string model =
      "[model]\ninput = [1, 2, 2]\nlayers = [ { type = \"flatten\" }, { type = \"linear\", "
      "features "
      "= 3 } ]\n[training]\nglobal_batch_size = 2\n[device]\nbackend = \"reference\"\n";
  folder_.write("idx.toml", model + idx);
  const std::string header("\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x02", 16);
  const std::string labels("\0\0\x08\x01\0\0\0\x02\x01\x02", 10);
  folder_.write("labels", labels);
  folder_.write("images", header + "12345678");
  EXPECT_EQ(run({"train", "idx.toml", "--max-steps", "1"}).exit_code, 0);
  folder_.write("images", header + "12345");
  expect_fails({"train", "idx.toml"}, 5, {"images: at byte 16", "8 bytes", "no more than 5"});
  folder_.write("images", "not an IDX file at all");
  expect_fails({"train", "idx.toml"}, 5, {"images"});
  folder_.write("images", header + "12345678");
  folder_.write("labels", labels.substr(0, 9));
  expect_fails({"train", "idx.toml"}, 5, {"labels"});
}

TEST_F(BadInput, Weights) {
  expect_fails({"evaluate", job_, "--weights", "absent.safetensors"}, 5, {"absent.safetensors"});
  folder_.write("nonsense.safetensors", "nonsense and more of it");
  expect_fails({"train", job_, "--weights", "nonsense.safetensors"}, 5, {"nonsense.safetensors"});
  output({"train", job_, "--set", "job.dump_folder=run", "--max-steps", "1"});
  const std::string layers =
      "model.layers=[{ type = \"linear\", features = 4 }, { type = \"linear\", name = \"out\", "
      "features = 3 }]";
  expect_fails({"evaluate", job_, "--weights", "run/weights.safetensors", "--set", layers}, 5,
               {"missing: out.weight [3, 4]", "fc1.weight is [5, 6], the model has [4, 6]",
                "not in the model: fc2.bias"});
  const std::string whole = test::read_text(folder_.path() / "run/weights.safetensors");
  folder_.write("cut.safetensors", whole.substr(0, whole.size() - 3));
  expect_fails({"evaluate", job_, "--weights", "cut.safetensors"}, 5, {"cut.safetensors"});
}

TEST_F(BadInput, ALossThatIsNoNumber) {
  expect_fails({"train", job_, "--set", "job.dump_folder=run", "--set", "optimizer.lr=1e30",
                "--set", "optimizer.weight_decay=1"},
               6, {"the loss of step", "optimizer.lr"});
}

TEST_F(BadInput, FoldersThatCannotBeWritten) {
  folder_.write("file", "");
  expect_fails({"train", job_, "--set", "job.dump_folder=file/below"}, 5, {"job.dump_folder"});
  expect_fails({"gradients", job_, "--output", "absent/g.safetensors"}, 5, {"absent"});
}

TEST_F(BadInput, EvaluationWithoutValidationPart) {
  output({"train", job_, "--set", "job.dump_folder=run", "--max-steps", "1"});
  expect_fails({"evaluate", job_, "--weights", "run/weights.safetensors", "--set",
                "dataset.validation_split=0"},
               2, {"no validation part", "--part train"});
}

}  // namespace
}  // namespace runtime::cli
