// The files of a run: which of them another run may replace, and how damage is reported.
#include "tests/runtime/cli/program.h"

namespace runtime::cli {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class RunFiles : public ProgramTest {
 protected:
  void train() { output({"train", job_, "--set", "job.dump_folder=run"}); }
  std::string text(const std::string& name) const { return test::read_text(folder_.path() / name); }
};

TEST_F(RunFiles, ARunIsNotReplacedUnlessTold) {
  train();
  const std::string before = text("run/weights.safetensors");
  const std::vector<std::string> again = {"train", job_,          "--set", "job.dump_folder=run",
                                          "--set", "debug.seed=7"};
  const test::ProcessResult refused = run(again);
  EXPECT_EQ(refused.exit_code, 2) << refused.err;
  EXPECT_THAT(refused.err, AllOf(HasSubstr("holds weights.safetensors of an earlier run"),
                                 HasSubstr("job.overwrite=true")));
  EXPECT_EQ(text("run/weights.safetensors"), before);
  std::vector<std::string> told = again;
  told.insert(told.end(), {"--set", "job.overwrite=true"});
  output(told);
  EXPECT_NE(text("run/weights.safetensors"), before);
  EXPECT_THAT(text("run/config.toml"), HasSubstr("seed = 7"));
}

TEST_F(RunFiles, AUsersOwnConfigurationIsNeverReplaced) {
  folder_.write("mine/config.toml", kTinyJob);
  for (const char* overwrite : {"false", "true"}) {
    const test::ProcessResult r = run({"train", "mine/config.toml", "--set", "job.dump_folder=mine",
                                       "--set", std::string("job.overwrite=") + overwrite});
    EXPECT_EQ(r.exit_code, 2) << r.err;
    EXPECT_THAT(r.err, HasSubstr("holds config.toml"));
  }
  EXPECT_EQ(text("mine/config.toml"), kTinyJob);
}

TEST_F(RunFiles, ADamagedWeightsFileIsRefused) {
  train();
  std::string bytes = text("run/weights.safetensors");
  bytes.back() ^= 1;
  folder_.write("run/weights.safetensors", bytes);
  const test::ProcessResult r = run({"evaluate", job_, "--weights", "run/weights.safetensors"});
  EXPECT_EQ(r.exit_code, 5) << r.err;
  EXPECT_THAT(r.err, AllOf(HasSubstr("run/weights.safetensors"), HasSubstr("crc32:")));
}

}  // namespace
}  // namespace runtime::cli
