// The files of a run: which of them another run may replace, and how damage is reported.
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/runtime/cli/program.h"

namespace runtime::cli {
namespace {

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

// The numbers of a rank's file, one line for each report.
std::vector<nlohmann::json> json_lines(const std::string& text) {
  std::vector<nlohmann::json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

std::vector<int64_t> steps_of(const std::vector<nlohmann::json>& lines) {
  std::vector<int64_t> steps;
  for (const nlohmann::json& line : lines) steps.push_back(line["steps"]);
  return steps;
}

// 48 samples for training in batches of 8: 6 steps in an epoch, of which 6 are for warming up.
TEST_F(RunFiles, EachRankWritesItsNumbers) {
  const std::vector<std::string> train = {"train",   job_,
                                          "--nproc", "2",
                                          "--set",   "job.dump_folder=run",
                                          "--set",   "metrics.ranks=true",
                                          "--set",   "metrics.log_every_steps=2",
                                          "--set",   "comm.backend=local"};
  output(train);
  for (const char* rank : {"0", "1"}) {
    const auto lines = json_lines(text(std::string("run/ranks/rank") + rank + ".jsonl"));
    EXPECT_THAT(steps_of(lines), testing::ElementsAre(2, 4, 6, 8, 10, 12));
    for (const nlohmann::json& line : lines) {
      EXPECT_EQ(line["rank"], std::stoi(rank));
      EXPECT_GT(line["time"], 1.7e9);
      EXPECT_GT(line["allocated_bytes"], 0);
      EXPECT_EQ(line.contains("step_seconds"), line["steps"] > 5) << line;
      if (!line.contains("step_seconds")) continue;
      EXPECT_GT(line["step_seconds"], 0);
      EXPECT_GE(line["waiting_seconds"], 0);
      EXPECT_LE(line["waiting_seconds"].get<double>() + line["data_seconds"].get<double>(),
                line["step_seconds"].get<double>());
    }
  }
  std::vector<std::string> longer = train;
  longer.insert(longer.end(), {"--set", "training.epochs=3", "--resume", "auto"});
  output(longer);
  EXPECT_THAT(steps_of(json_lines(text("run/ranks/rank1.jsonl"))),
              testing::ElementsAre(2, 4, 6, 8, 10, 12, 14, 16, 18));
  std::vector<std::string> again = train;
  again.insert(again.end(), {"--max-steps", "4", "--set", "job.overwrite=true"});
  output(again);
  EXPECT_THAT(steps_of(json_lines(text("run/ranks/rank1.jsonl"))), testing::ElementsAre(2, 4));
}

// The configuration of a run with logs goes on to serve commands of one rank.
TEST_F(RunFiles, ALogFolderIsOfATrainingWithProcesses) {
  const std::vector<std::string> logs = {"--set", "launch.log_folder=logs"};
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.end(), logs.begin(), logs.end());
    return words;
  };
  output(with({"plan", job_}));
  const test::ProcessResult r = run(with({"train", job_}));
  EXPECT_EQ(r.exit_code, 2) << r.err;
  EXPECT_THAT(r.err, AllOf(HasSubstr("launch.log_folder = \"logs\""), HasSubstr("--nproc")));
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
