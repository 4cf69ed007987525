// `runtime tune batch`, with runs of `runtime bench` under the same limit as the definition of what
// fits.
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/runtime/cli/shell.h"

namespace runtime::cli {
namespace {

using testing::HasSubstr;

constexpr const char* kTanhJob = R"(
[model]
input = [8]
layers = [ { type = "linear", features = 512, activation = "tanh" }, { type = "linear", features = 2 } ]
[dataset]
name = "synthetic"
samples = 65536
classes = 2
[training]
global_batch_size = 16
[device]
tune = "off"
threads = 1
)";

class TuneBatch : public ShellTest {
 protected:
  TuneBatch() { folder_.write("job.toml", kTanhJob); }

  nlohmann::json read_json(const std::string& name) const {
    std::ifstream file(folder_.path() / name);
    return nlohmann::json::parse(file);
  }
  const std::string device_ =
      std::string(" --set device.backend=") + (test::has_backend("cpu") ? "cpu" : "reference");
};

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they reserve terabytes
TEST_F(TuneBatch, UnderALimitFindsWhatFitsAndSurvivesWhatDoesNot) {
  if (!test::has_backend("cpu")) GTEST_SKIP() << "the plugin cpu was not built";
  const test::ProcessResult r = shell(
      "runtime tune batch job.toml --steps 1 --memory-limit 400M --output out.json --output "
      "out.svg" +
      device_);
  ASSERT_EQ(r.exit_code, 0) << r.err;
  const nlohmann::json found = read_json("out.json");
  const int64_t largest = found["largest"];
  EXPECT_GT(largest, 1000);
  EXPECT_LT(largest, 65536);
  EXPECT_THAT(r.out, HasSubstr("largest that fits: training.global_batch_size = " +
                               std::to_string(largest)));
  EXPECT_THAT(r.out, testing::EndsWith("\n[training]\nglobal_batch_size = " +
                                       std::to_string(found["fastest"].get<int64_t>()) + "\n"));
  int64_t refused = 1 << 30;
  for (const nlohmann::json& trial : found["trials"]) {
    EXPECT_EQ(trial["fits"].get<bool>(), trial["batch_size"] <= largest) << trial;
    if (trial["fits"].get<bool>()) continue;
    refused = std::min(refused, trial["batch_size"].get<int64_t>());
    EXPECT_THAT(trial["reason"].get<std::string>(), testing::StartsWith("memory: "));
  }
  EXPECT_GT(refused, largest);
  EXPECT_LE(refused, largest + largest / 20);
  // Addresses are random, so the limit itself moves a little from one process to the next.
  const auto bench = [&](int64_t size) {
    return limited("-v 409600", "runtime bench job.toml --json --steps 1" + device_ +
                                    " --set training.global_batch_size=" + std::to_string(size));
  };
  EXPECT_EQ(bench(largest * 9 / 10).exit_code, 0);
  EXPECT_EQ(bench(refused * 11 / 10).exit_code, 3);
  std::ifstream svg(folder_.path() / "out.svg");
  std::string first;
  EXPECT_TRUE(std::getline(svg, first));
  EXPECT_THAT(first, testing::StartsWith("<svg"));
}

TEST_F(TuneBatch, WithoutASizeThatFitsThereIsAnError) {
  if (!test::has_backend("cpu")) GTEST_SKIP() << "the plugin cpu was not built";
  const test::ProcessResult r =
      shell("runtime tune batch job.toml --steps 1 --memory-limit 100M" + device_);
  EXPECT_EQ(r.exit_code, 3) << r.out;
  EXPECT_THAT(r.err, HasSubstr("error: no batch size fits, not even 1: memory: "));
}
#endif

TEST_F(TuneBatch, TheDataSetIsALimitToo) {
  const test::ProcessResult r = shell(
      "runtime tune batch job.toml --steps 1 --set dataset.samples=100 --precision 0 --output "
      "out.json" +
      device_);
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_EQ(read_json("out.json")["largest"], 100);
  EXPECT_THAT(r.out, testing::ContainsRegex("128 [- ]+refused: "));
}

TEST_F(TuneBatch, OfSeveralRanksHasTheirMultiples) {
  const test::ProcessResult r = shell(
      "runtime tune batch job.toml --steps 1 --nproc 3 --set dataset.samples=200 --precision 0 "
      "--output out.json" +
      device_);
  ASSERT_EQ(r.exit_code, 0) << r.err;
  const nlohmann::json found = read_json("out.json");
  EXPECT_EQ(found["largest"], 198);
  EXPECT_EQ(found["trials"][0]["batch_size"], 48);
}

TEST_F(TuneBatch, TunesTheKeyThatTheConfigurationHas) {
  const test::ProcessResult r =
      shell("runtime tune batch job.toml --steps 1 --most 20 --set training.batch_size_per_rank=4" +
            device_);
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("[training]\nbatch_size_per_rank = "));
}

TEST_F(TuneBatch, ErrorsAreThoseOfTheProgram) {
  test::ProcessResult r = shell("runtime tune batch job.toml --set optimizer.lrr=1");
  EXPECT_EQ(r.exit_code, 2);
  EXPECT_THAT(r.err, HasSubstr("unknown key, did you mean \"lr\"?"));
  r = shell("runtime tune batch job.toml --set device.backend=nothing");
  EXPECT_EQ(r.exit_code, 3);
  EXPECT_THAT(r.err, HasSubstr("the trial with batch size 16 failed (exit code 3)"));
  EXPECT_EQ(shell("runtime tune batch job.toml --output out.txt").exit_code, 2);
  EXPECT_EQ(shell("runtime tune batch job.toml --start 64 --most 32").exit_code, 2);
}

}  // namespace
}  // namespace runtime::cli
