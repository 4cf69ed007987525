// `runtime sweep`: sweeps that are killed, stopped and resumed, and trials that fail.
#include <signal.h>

#include <chrono>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "tests/tools/sweep/sweep_program.h"

namespace runtime::cli {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::HasSubstr;

// All processes below this one.
std::vector<pid_t> descendants() {
  std::vector<pid_t> list = {getpid()};
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string process = std::to_string(list[i]);
    std::error_code ignored;
    for (const auto& task : fs::directory_iterator("/proc/" + process + "/task", ignored)) {
      std::ifstream children(task.path() / "children");
      for (pid_t child = 0; children >> child;) list.push_back(child);
    }
  }
  list.erase(list.begin());
  return list;
}

// The sweep is stopped first, so that it starts nothing that is not in the list.
void kill_all(const test::RuntimeProcess& sweep) {
  sweep.send(SIGSTOP);
  std::this_thread::sleep_for(milliseconds(20));
  for (const pid_t process : descendants()) kill(process, SIGKILL);
}

class Sweeps : public SweepTest {
 protected:
  std::vector<std::string> arguments(const std::string& folder) const {
    return {"sweep", "sweep.toml", "--resume", "--folder", folder};
  }
  // Whether a run that has no record yet has been saved.
  bool has_unfinished_checkpoint(const std::string& folder) const {
    std::set<std::string> recorded;
    for (const nlohmann::json& line : lines_of(folder)) recorded.insert(line["run"]);
    std::error_code ignored;
    for (const auto& run : fs::directory_iterator(folder_.path() / folder / "runs", ignored)) {
      if (recorded.contains("runs/" + run.path().filename().string())) continue;
      for (const auto& saved : fs::directory_iterator(run.path() / "checkpoints", ignored))
        if (saved.path().filename().string().starts_with("step-")) return true;
    }
    return false;
  }
  // Whether the log of a run says that it went on from a checkpoint.
  bool a_run_went_on(const std::string& folder) const {
    for (const auto& file : fs::directory_iterator(folder_.path() / folder / "runs")) {
      if (file.path().extension() == ".log" &&
          test::read_text(file.path()).find("resumed from") != std::string::npos)
        return true;
    }
    return false;
  }
};

TEST_F(Sweeps, AnImpossibleValueIsFoundBeforeTheFirstTrial) {
  const auto refuses = [&](const std::string& parameter, const std::string& message) {
    folder_.write("wrong.toml", "config = \"job.toml\"\n[parameters]\n" + parameter + "\n");
    const test::ProcessResult r = run({"sweep", "wrong.toml", "--folder", "wrong"});
    EXPECT_EQ(r.exit_code, 2) << r.err;
    EXPECT_EQ(r.err.find("error: wrong.toml: trial " + message), 0u) << r.err;
    EXPECT_FALSE(fs::exists(folder_.path() / "wrong"));
  };
  refuses("optimizer.lr = [0.1, \"fast\"]",
          "1 (optimizer.lr=fast): optimizer.lr: wrong value: got string \"fast\"");
  refuses("optimizer.lrr = [0.1, 0.2]", "0 (optimizer.lrr=0.1): optimizer.lrr: unknown key");
  refuses("optimizer.name = [\"adamw\", \"sdg\"]\noptimizer.weight_decay = [0.0, 0.5]",
          "2 (optimizer.name=sdg, optimizer.weight_decay=0.0): optimizer.name: unknown choice");
}

TEST_F(Sweeps, AMonitorThatIsNeverMeasuredIsFoundBeforeTheFirstTrial) {
  const auto refused = [&](const std::string& monitor, const std::string& set) {
    folder_.write("wrong.toml", "config = \"job.toml\"\nmode = \"min\"\nmonitor = \"" + monitor +
                                    "\"\n[set]\n" + set + "\n[parameters]\noptimizer.lr = [0.1]\n");
    const test::ProcessResult r = run({"sweep", "wrong.toml", "--dry-run", "--folder", "wrong"});
    return r.exit_code == 0 ? "" : r.err;
  };
  EXPECT_THAT(
      refused("validation_loss", "validation.every_epochs = 0"),
      HasSubstr("never measured: validation.every_epochs and validation.every_steps are 0"));
  EXPECT_THAT(refused("validation_f1", ""), HasSubstr("validation.metrics has no \"f1\""));
  EXPECT_EQ(refused("validation_f1", "validation.metrics = [\"f1\"]"), "");
  EXPECT_EQ(refused("validation_loss", "validation.every_epochs = 0\nvalidation.every_steps = 5"),
            "");
  EXPECT_EQ(refused("loss", "validation.every_epochs = 0"), "");
}

TEST_F(Sweeps, KilledAndResumedHasTheResultsOfOneThatWasNot) {
  write_sweep();
  const auto begin = std::chrono::steady_clock::now();
  output({"sweep", "sweep.toml", "--folder", "whole"});
  const auto all =
      std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begin);
  const Results whole = results_of("whole");
  ASSERT_EQ(whole.size(), 12u);
  std::mt19937 random(testing::UnitTest::GetInstance()->random_seed());
  std::string before;
  for (int kills = 0; kills < 4; ++kills) {
    test::RuntimeProcess sweep(folder_.path(), arguments("killed"));
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    // The first time while a trial is half done, then at any moment.
    while (kills == 0 && !has_unfinished_checkpoint("killed") &&
           std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(milliseconds(2));
    if (kills > 0) std::this_thread::sleep_for(all * (random() % 1000) / 6000);
    kill_all(sweep);
    sweep.wait();
    const std::string now = test::read_text(folder_.path() / "killed/sweep.jsonl");
    EXPECT_TRUE(now.starts_with(before)) << "a finished trial was run again";
    before = now.substr(0, now.rfind('\n') + 1);
  }
  EXPECT_LT(results_of("killed").size(), 12u) << "was killed too late to show anything";
  const std::string out = output(arguments("killed"));
  EXPECT_TRUE(test::read_text(folder_.path() / "killed/sweep.jsonl").starts_with(before));
  EXPECT_TRUE(a_run_went_on("killed"));
  EXPECT_EQ(results_of("killed"), whole);
  EXPECT_THAT(out, HasSubstr("best: trial "));
}

TEST_F(Sweeps, ASignalStopsItAndItGoesOn) {
  write_sweep();
  output({"sweep", "sweep.toml", "--folder", "whole"});
  test::RuntimeProcess sweep(folder_.path(), arguments("stopped"));
  ASSERT_TRUE(sweep.wait_for_text("trial 1:", std::chrono::seconds(60)));
  sweep.send(SIGINT);
  const test::ProcessResult r = sweep.wait();
  EXPECT_EQ(r.exit_code, 130) << r.err;
  EXPECT_THAT(r.err, HasSubstr("go on with: runtime sweep sweep.toml --resume --folder stopped"));
  EXPECT_TRUE(descendants().empty()) << "a run was left behind";
  EXPECT_LT(lines_of("stopped").size(), 12u);
  output(arguments("stopped"));
  EXPECT_EQ(results_of("stopped"), results_of("whole"));
}

// Its runs get SIGTERM when the sweep alone is killed; the next one waits until they have ended.
TEST_F(Sweeps, RunsThatAKilledSweepLeavesBehindSaveThemselves) {
  write_sweep();
  test::RuntimeProcess sweep(folder_.path(), arguments("out"));
  ASSERT_TRUE(sweep.wait_for_text("trial 1:", std::chrono::seconds(60)));
  sweep.send(SIGKILL);
  sweep.wait();
  output(arguments("out"));
  for (const auto& [key, result] : results_of("out")) EXPECT_EQ(result.first["status"], "done");
  EXPECT_EQ(results_of("out").size(), 12u);
}

TEST_F(Sweeps, TheResultIsThatOfTheSameTraining) {
  write_sweep();
  output({"sweep", "sweep.toml", "--folder", "out"});
  output({"train", "job.toml", "--set", "optimizer.lr=0.003", "--set", "optimizer.weight_decay=0.5",
          "--set", "job.dump_folder=alone"});
  const nlohmann::json record = results_of("out").at({5, 0}).first;  // the third rate, the second
  EXPECT_EQ(record["settings"],
            nlohmann::json({{"optimizer.lr", 0.003}, {"optimizer.weight_decay", 0.5}}));
  nlohmann::json last;
  std::istringstream metrics(test::read_text(folder_.path() / "alone/metrics.jsonl"));
  for (std::string line; std::getline(metrics, line);) last = nlohmann::json::parse(line);
  EXPECT_EQ(record["value"], last["validation_loss"]);
  EXPECT_EQ(record["monitor"], "validation_loss");
  EXPECT_GT(lines_of("out")[0]["seconds"], 0);
}

TEST_F(Sweeps, AFailedTrialIsRecordedAndEndsNothing) {
  folder_.write("sweep.toml",
                "config = \"job.toml\"\n[parameters]\noptimizer.lr = [0.01, 1e30]\n"
                "model.input = [[12], [13]]\n");
  const std::string out = output({"sweep", "sweep.toml", "--folder", "out"});
  const Results results = results_of("out");
  ASSERT_EQ(results.size(), 4u);
  for (const auto& [key, result] : results) {
    const bool fails = key.first > 1;
    EXPECT_EQ(result.first["status"], fails ? "failed" : "done");
    EXPECT_EQ(result.first["value"].is_null(), fails);
    if (fails) {
      EXPECT_THAT(result.first["error"].get<std::string>(),
                  testing::StartsWith("exit code 6: the "));
    }
  }
  EXPECT_THAT(out, HasSubstr("trial 2 failed: exit code 6"));
}

TEST_F(Sweeps, WhatHasFailedIsRunAgain) {
  folder_.write("sweep.toml",
                "config = \"job.toml\"\nmonitor = \"validation_loss\"\n[set]\n"
                "dataset.validation_split = 0.0\n[parameters]\noptimizer.lr = [0.01, 0.02]\n");
  const std::vector<std::string> again = {"sweep", "sweep.toml", "--folder", "out", "--resume"};
  for (int i = 0; i < 2; ++i) {
    const test::ProcessResult r = run(again);
    EXPECT_EQ(r.exit_code, 2) << r.out;
    EXPECT_THAT(r.err, HasSubstr("run the trials again with --resume"));
    EXPECT_EQ(lines_of("out").size(), 2u * (i + 1));
  }
  folder_.write("sweep.toml",
                "config = \"job.toml\"\nmonitor = \"validation_loss\"\n[parameters]\n"
                "optimizer.lr = [0.01, 0.03, 1e30]\n");
  EXPECT_THAT(run(again).err, HasSubstr("begins anew with the changed file"));
  ASSERT_EQ(lines_of("out").size(), 3u);
  EXPECT_EQ(lines_of("out")[1]["settings"]["optimizer.lr"], 0.03);
  EXPECT_EQ(lines_of("out")[1]["status"], "done");
  run(again);
  ASSERT_EQ(lines_of("out").size(), 4u) << "only what has failed";
  EXPECT_EQ(lines_of("out")[3]["trial"], 2);
}

TEST_F(Sweeps, ATrialThatTakesTooLongHasFailed) {
  write_sweep("timeout_s = 0.001\nmonitor = \"loss\"\n[set]\ntraining.epochs = 100000\n");
  const test::ProcessResult r = run({"sweep", "sweep.toml", "--folder", "out"});
  EXPECT_EQ(r.exit_code, 2) << r.out;
  EXPECT_THAT(r.err, HasSubstr("every trial has failed"));
  for (const nlohmann::json& line : lines_of("out"))
    EXPECT_THAT(line["error"].get<std::string>(), HasSubstr("(timeout_s)"));
  EXPECT_EQ(lines_of("out").size(), 12u);
}

TEST_F(Sweeps, ErrorsAreFoundBeforeAnythingStarts) {
  write_sweep("[set]\ntraining.epoch = 3\n");
  test::ProcessResult r = run({"sweep", "sweep.toml", "--folder", "out"});
  EXPECT_EQ(r.exit_code, 2);
  EXPECT_THAT(r.err, HasSubstr("unknown key, did you mean \"epochs\"?"));
  EXPECT_FALSE(fs::exists(folder_.path() / "out"));
  EXPECT_EQ(run({"sweep", "nothing.toml"}).exit_code, 2);
  EXPECT_EQ(run({"sweep"}).exit_code, 2);
}

TEST_F(Sweeps, AnotherSweepNeedsAnotherFolder) {
  write_sweep("[set]\ntraining.epochs = 1\n");
  output({"sweep", "sweep.toml", "--folder", "out"});
  const std::string records = test::read_text(folder_.path() / "out/sweep.jsonl");
  test::ProcessResult r = run({"sweep", "sweep.toml", "--folder", "out"});
  EXPECT_EQ(r.exit_code, 2);
  EXPECT_THAT(r.err, HasSubstr("out holds a sweep; go on with it (--resume)"));
  write_sweep("[set]\ntraining.epochs = 2\n");
  r = run({"sweep", "sweep.toml", "--folder", "out", "--resume"});
  EXPECT_EQ(r.exit_code, 2);
  EXPECT_THAT(r.err, HasSubstr("was begun with another file"));
  EXPECT_EQ(test::read_text(folder_.path() / "out/sweep.jsonl"), records);
}

}  // namespace
}  // namespace runtime::cli
