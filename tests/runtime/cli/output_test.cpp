// Commands whose output or files cannot be written.
#include "runtime/data/safetensors.h"
#include "tests/runtime/cli/shell.h"

namespace runtime::cli {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Outputs : public ShellTest {
 protected:
  void train() { output({"train", job_, "--set", "job.dump_folder=run"}); }
  bool exists(const std::string& name) const { return fs::exists(folder_.path() / name); }
};

TEST_F(Outputs, ThatAreLostAreAnErrorOfEveryCommand) {
  train();
  const std::string weights = " --weights run/weights.safetensors";
  for (const std::string& command : {std::string("devices"),
                                     std::string("plugins list"),
                                     std::string("plugins info reference"),
                                     std::string("config check tiny.toml"),
                                     std::string("config show tiny.toml"),
                                     std::string("config schema"),
                                     std::string("plan tiny.toml"),
                                     "evaluate tiny.toml" + weights,
                                     "predict tiny.toml" + weights,
                                     "predict tiny.toml --format csv" + weights,
                                     std::string("bench tiny.toml --steps 1"),
                                     std::string("bench tiny.toml --steps 1 --json"),
                                     std::string("bench tiny.toml --steps 1 --layers"),
                                     std::string("gradients tiny.toml --output g.safetensors"),
                                     std::string("verify tiny.toml --against reference"),
                                     std::string("verify tiny.toml --against reference --json"),
                                     std::string("verify tiny.toml --record v.safetensors"),
                                     std::string("--help"),
                                     std::string("--version"),
                                     std::string("train --help")}) {
    const test::ProcessResult r = shell("runtime " + command + " >/dev/full");
    EXPECT_EQ(r.exit_code, 5) << command << "\n" << r.err;
    EXPECT_THAT(r.err, HasSubstr("error: cannot write to the standard output")) << command;
  }
}

TEST_F(Outputs, TrainingGoesOnWithoutThem) {
  const test::ProcessResult r =
      shell("runtime train tiny.toml --set job.dump_folder=run >/dev/full");
  EXPECT_EQ(r.exit_code, 5) << r.err;
  EXPECT_THAT(r.err, AllOf(HasSubstr("training goes on without it"), HasSubstr("done: "),
                           HasSubstr("error: the progress of training")));
  EXPECT_TRUE(exists("run/weights.safetensors"));
}

TEST_F(Outputs, TrainingGoesOnWithoutItsMetrics) {
  const test::ProcessResult r =
      limited("-f 40",
              "runtime train tiny.toml --set job.dump_folder=run --set metrics.log_every_steps=1 "
              "--set training.epochs=500");
  EXPECT_EQ(r.exit_code, 5) << r.err;
  EXPECT_THAT(r.err, HasSubstr("warning: run/metrics.jsonl could not be written: File too large"));
  EXPECT_THAT(r.err, HasSubstr("error: run/metrics.jsonl could not be written: File too large"));
  EXPECT_TRUE(exists("run/weights.safetensors"));
}

TEST_F(Outputs, ALimitForTheSizeOfFilesIsAnErrorAndNoSignal) {
  for (const std::string& command :
       {std::string("runtime train tiny.toml --set job.dump_folder=run"),
        std::string("runtime gradients tiny.toml --output g.safetensors"),
        std::string("runtime verify tiny.toml --record v.safetensors")}) {
    const test::ProcessResult r = limited("-f 0", command);
    EXPECT_EQ(r.exit_code, 5) << command << "\n" << r.err;
    EXPECT_THAT(r.err, HasSubstr("File too large")) << command;
  }
  for (const auto& entry : fs::recursive_directory_iterator(folder_.path()))
    EXPECT_THAT(entry.path().filename().string(), Not(testing::EndsWith(".tmp")));
}

TEST_F(Outputs, LinksStay) {
  for (const char* command :
       {"gradients tiny.toml --output link", "verify tiny.toml --record link"}) {
    fs::remove(folder_.path() / "link");
    folder_.write("target", "old");
    fs::create_symlink("target", folder_.path() / "link");
    const test::ProcessResult r = shell(std::string("runtime ") + command);
    EXPECT_EQ(r.exit_code, 0) << r.err;
    EXPECT_TRUE(fs::is_symlink(folder_.path() / "link")) << command;
    EXPECT_FALSE(data::read_safetensors((folder_.path() / "target").string()).tensors.empty());
  }
}

TEST_F(Outputs, GoIntoAPipe) {
  const test::ProcessResult r =
      shell("mkfifo pipe; cat pipe >copy & runtime gradients tiny.toml --output pipe && wait");
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_FALSE(data::read_safetensors((folder_.path() / "copy").string()).tensors.empty());
  EXPECT_TRUE(fs::is_fifo(folder_.path() / "pipe"));
}

}  // namespace
}  // namespace runtime::cli
