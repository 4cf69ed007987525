// NaN or infinity at the end of a run: after its last step, or in its validation.
#include "tests/runtime/cli/program.h"

namespace runtime::cli {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class Divergence : public ProgramTest {
 protected:
  Divergence() {
    folder_.write("train.csv", "x,y\n1,1\n2,2\n3,3\n4,4\n");
    folder_.write("validation.csv", "x,y\n3e38,1\n");
    folder_.write("regression.toml", R"(
[model]
input = [1]
layers = [ { type = "linear", features = 1 } ]
[dataset]
format = "csv"
task = "regression"
target = "y"
path = "train.csv"
validation_path = "validation.csv"
[training]
global_batch_size = 4
epochs = 1
[optimizer]
lr = 0.001
[device]
backend = "reference"
[job]
dump_folder = "run"
)");
  }
  std::string text(const std::string& name) const { return test::read_text(folder_.path() / name); }
};

TEST_F(Divergence, OfTheLastValidationIsAnErrorAndTheWeightsAreKept) {
  for (const char* ranks : {"1", "2"}) {
    fs::remove_all(folder_.path() / "run");
    const test::ProcessResult r = run({"train", "regression.toml", "--nproc", ranks});
    EXPECT_EQ(r.exit_code, 6) << r.err;
    EXPECT_THAT(r.err, AllOf(HasSubstr("the validation loss after step 1 is inf"),
                             HasSubstr("saved: run/weights.safetensors")));
    EXPECT_NE(text("run/weights.safetensors"), "");
  }
  const test::ProcessResult r =
      run({"evaluate", "regression.toml", "--weights", "run/weights.safetensors"});
  EXPECT_EQ(r.exit_code, 6) << r.err;
  EXPECT_THAT(r.out, HasSubstr("\"loss\":null"));
  EXPECT_THAT(r.err, HasSubstr("the loss of the validation part is inf"));
}

TEST_F(Divergence, OfTheLastStepKeepsTheWeightsOfTheEarlierRun) {
  output({"train", "regression.toml", "--set", "validation.every_epochs=0"});
  const std::string before = text("run/weights.safetensors");
  const test::ProcessResult r =
      run({"train", "regression.toml", "--set", "validation.every_epochs=0", "--set",
           "optimizer.lr=1e200", "--set", "job.overwrite=true"});
  EXPECT_EQ(r.exit_code, 6) << r.err;
  EXPECT_THAT(r.err, AllOf(HasSubstr("after step 1 parameter '"), HasSubstr("are not saved"),
                           HasSubstr("run/weights.safetensors is of an earlier run")));
  EXPECT_EQ(text("run/weights.safetensors"), before);
}

}  // namespace
}  // namespace runtime::cli
