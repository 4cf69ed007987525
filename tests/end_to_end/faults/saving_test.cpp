// Saving that takes longer than the deadline of a collective: no result is lost, whatever happens
// at the same time.
#include <signal.h>

#include <filesystem>
#include <thread>

#include "runtime/data/safetensors.h"
#include "tests/end_to_end/faults/job.h"

namespace runtime::faults {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCanPreload = false;  // the sanitizer's library must be loaded first
#else
constexpr bool kCanPreload = true;
#endif

class Saving : public JobTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    if (!has_plugin(GetParam())) GTEST_SKIP() << "the plugin " << GetParam() << " was not built";
    if (!kCanPreload) GTEST_SKIP() << "no library can be put before a sanitizer's";
  }
  // Three ranks with a deadline of 2 s for a collective; saving `file` takes `wait` seconds more.
  Process slow(const std::string& file, int wait, Words settings = {}) {
    settings.push_back(std::string("comm.backend=") + GetParam());
    return train({"--nproc", "3"}, settings,
                 {{"LD_PRELOAD", SLOW_FSYNC},
                  {"RUNTIME_SLOW_FILE", file},
                  {"RUNTIME_SLOW_SECONDS", std::to_string(wait)}});
  }
  // Waits until rank 0 has written the weights and waits for the disk.
  bool wait_for_saving() {
    const auto deadline = Clock::now() + seconds(30);
    while (Clock::now() < deadline) {
      std::error_code ignored;
      for (const auto& entry : std::filesystem::directory_iterator(path("run"), ignored)) {
        if (entry.path().filename().string().starts_with(".weights.safetensors.")) return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }
  void expect_weights() {
    const data::TensorFile file = data::read_safetensors(path("run/weights.safetensors").string());
    EXPECT_EQ(file.tensors.size(), 4u);
  }
  std::string weights() const { return path("run/weights.safetensors").string(); }
};

INSTANTIATE_TEST_SUITE_P(Backends, Saving, testing::Values("local", "gloo", "mpi"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Saving, MayTakeLongerThanACollective) {
  const ProcessResult result = slow("weights.safetensors", 6)->wait(seconds(60));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("done: "), Not(HasSubstr("is lost"))));
  expect_weights();
}

TEST_P(Saving, SoMayTheFilesBesideTheWeights) {
  for (const char* file : {"config.toml", "scaling.json"}) {
    std::filesystem::remove_all(path("run"));
    const ProcessResult result = slow(file, 4)->wait(seconds(60));
    EXPECT_EQ(result.exit_code, 0) << file << "\n" << result.err;
    expect_weights();
  }
}

TEST_P(Saving, IsFinishedAfterASignal) {
  const Process job = slow("weights.safetensors", 4);
  ASSERT_TRUE(wait_for_saving());
  job->send(SIGTERM);
  const ProcessResult result = job->wait(seconds(30));
  EXPECT_TRUE(result.exit_code == 0 || result.exit_code == 143) << result.exit_code << result.err;
  expect_weights();
}

TEST_P(Saving, AfterASignalMayTakeLongerThanACollective) {
  const Process job = slow("weights.safetensors", 6, {kEndless});
  ASSERT_TRUE(job->wait_for_text("\"step\":", seconds(30)));
  job->send(SIGTERM);
  const ProcessResult result = job->wait(seconds(30));
  EXPECT_EQ(result.exit_code, 143) << result.err;
  expect_weights();
}

TEST_P(Saving, IsFinishedWhenAnotherRankIsKilled) {
  if (std::string(GetParam()) != "gloo") GTEST_SKIP() << "ranks that our launcher starts only";
  // Saving takes longer than the time that the launcher otherwise gives ranks to end.
  const Process job = slow("weights.safetensors", 8);
  ASSERT_TRUE(wait_for_saving());
  signal_rank(2, SIGKILL);
  const ProcessResult result = job->wait(seconds(30));
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_THAT(result.err, HasSubstr("rank 2"));
  expect_weights();
}

TEST_P(Saving, OfARankThatIsStoppedIsNotWaitedForForEver) {
  if (std::string(GetParam()) != "gloo") GTEST_SKIP() << "ranks that our launcher starts only";
  const Process job = slow("weights.safetensors", 1);
  ASSERT_TRUE(wait_for_saving());
  signal_rank(0, SIGSTOP);
  const ProcessResult result = job->wait(seconds(30));
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("rank 0 of 3 is lost"), HasSubstr("saving the weights")));
}

TEST_P(Saving, HasADeadlineOfItsOwn) {
  const auto begin = Clock::now();
  const ProcessResult result =
      slow("weights.safetensors", 60, {"comm.save_timeout_s=1"})->wait(seconds(40));
  EXPECT_EQ(result.exit_code, 5) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("saving the weights has taken more than 1 s"),
                                HasSubstr("comm.save_timeout_s")));
  EXPECT_LT(seconds_since(begin), 40);
  EXPECT_FALSE(std::filesystem::exists(weights()));
}

}  // namespace
}  // namespace runtime::faults
