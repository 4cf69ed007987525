// `train` with [profiling]: the table, profile.json and trace.json of whole runs.
#include <cmath>
#include <sstream>

#include "tests/runtime/cli/program.h"
#include "tests/runtime/support/trace.h"

namespace runtime::cli {
namespace {

using nlohmann::json;
using test::TraceSpan;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// A step is long enough for its spans to count, and no form of it is new while it is recorded.
const std::string kProfiledJob = R"(
[model]
preset = "lenet"
[dataset]
name = "synthetic"
samples = 640
classes = 10
last_batch = "drop"
[training]
global_batch_size = 32
steps = 9
[validation]
every_epochs = 0
[profiling]
enabled = true
wait = 2
warmup = 1
active = 5
memory_gbps = 20
gflops = 100
)";

class Profile : public ProgramTest {
 protected:
  std::string err_;
  // Trains with two ranks or one, and returns the named file of the run.
  void train(std::vector<std::string> more) {
    more.insert(more.begin(), {"train", job_, "--set", "job.dump_folder=run"});
    const test::ProcessResult r = run(more, {{"RUNTIME_PLUGIN_PATH", SIMULATED_FOLDER}});
    ASSERT_EQ(r.exit_code, 0) << r.err;
    err_ = r.err;
  }
  json file(const std::string& name) const {
    return json::parse(test::read_text(folder_.path() / "run" / name));
  }

  const std::string job_ = folder_.write("profiled.toml", kProfiledJob);
};

// Checks the spans of every rank; the ones of a step must add up to its time within 5 %.
void expect_steps_add_up(const json& trace, int ranks, int tid) {
  const auto tracks = test::read_trace(trace);
  for (int rank = 0; rank < ranks; ++rank) {
    int steps = 0;
    for (const TraceSpan& span : tracks.at({rank, tid})) {
      if (span.category != "step") continue;
      ++steps;
      EXPECT_NEAR(span.inside, span.end - span.begin, 0.05 * (span.end - span.begin))
          << "rank " << rank << ", " << span.name;
    }
    EXPECT_EQ(steps, 5) << "rank " << rank;
  }
}

// Checks that the parts of a mean step add up to it within 5 %.
void expect_profile_adds_up(const json& rank) {
  double parts = 0, operations = 0;
  for (const auto& [name, ns] : rank["phases"].items()) parts += ns.get<double>();
  for (const auto& o : rank["operations"]) operations += o["time_ns"].get<double>();
  EXPECT_NEAR(operations, parts, 1e-6 * parts);
  for (const char* key : {"data_wait_ns", "prepare_ns", "upload_ns", "report_ns", "between_ns"})
    parts += rank[key].get<double>();
  EXPECT_NEAR(parts, rank["step_ns"].get<double>(), 0.05 * rank["step_ns"].get<double>());
}

// A pipe gets the table with whole names.
void expect_whole_names(const std::string& text, const json& operations) {
  const std::string table = text.substr(text.find("\nlayer "));
  for (size_t i = 0; i < 12; ++i) {
    for (const char* key : {"layer", "name", "implementation"})
      EXPECT_THAT(table, HasSubstr(operations.at(i)[key].get<std::string>()));
  }
}

TEST_F(Profile, OfOneRank) {
  train({"--set", "device.backend=reference"});
  const json profile = file("profile.json");
  EXPECT_EQ(profile["format"], 1);
  EXPECT_EQ(profile["world_size"], 1);
  ASSERT_EQ(profile["ranks"].size(), 1u);
  EXPECT_EQ(profile["ranks"][0]["steps"], json({4, 8}));
  EXPECT_EQ(profile["ranks"][0]["device"], "reference:0");
  expect_profile_adds_up(profile["ranks"][0]);
  expect_steps_add_up(file("trace.json"), 1, 1);
  expect_whole_names(err_, profile["ranks"][0]["operations"]);
  EXPECT_THAT(
      err_, AllOf(HasSubstr("profile of rank 0, 5 steps (4 to 8)"), HasSubstr("conv2"),
                  HasSubstr("memory at the peak: "), HasSubstr("waiting for data"),
                  HasSubstr("\nbetween steps (validation, "), HasSubstr("trace: run/trace.json")));
}

TEST_F(Profile, OfTwoRanks) {
  for (const std::string backend : {"local", "gloo"}) {
    if (!std::filesystem::exists(PLUGIN_FOLDER "/libcollectives_" + backend + ".so")) continue;
    train({"--set", "device.backend=reference", "--nproc", "2", "--set", "comm.backend=" + backend,
           "--set", "job.overwrite=true"});
    const json profile = file("profile.json");
    ASSERT_EQ(profile["ranks"].size(), 2u) << backend;
    for (int rank : {0, 1}) {
      const json& r = profile["ranks"][rank];
      EXPECT_EQ(r["rank"], rank);
      expect_profile_adds_up(r);
      // The gradients of 129068 parameters and the loss, which are float32, with what aligns them.
      EXPECT_GE(r["communication"]["bytes"], (129068 + 1) * 4) << backend;
      EXPECT_LE(r["communication"]["bytes"], 1.01 * (129068 + 1) * 4) << backend;
      EXPECT_GT(r["communication"]["exposed_ns"], 0);
    }
    EXPECT_EQ(profile["ranks"][1]["clock"]["offset_ns"], 0) << "one machine has one clock";
    const json trace = file("trace.json");
    expect_steps_add_up(trace, 2, 1);
    EXPECT_TRUE(test::read_trace(trace).contains({1, 4})) << "the track of the collectives";
    EXPECT_THAT(err_, HasSubstr("communication: "));
  }
}

TEST_F(Profile, OfAPipelineAndOfTensorParallelRanks) {
  for (const char* mesh : {"parallelism.pipeline=2", "parallelism.tensor=2"}) {
    train({"--set", "device.backend=reference", "--nproc", "2", "--set", mesh, "--set",
           "job.overwrite=true"});
    const json profile = file("profile.json");
    ASSERT_EQ(profile["ranks"].size(), 2u);
    for (const json& rank : profile["ranks"]) {
      expect_profile_adds_up(rank);
      EXPECT_GT(rank["communication"]["bytes"], 0) << mesh;
    }
    expect_steps_add_up(file("trace.json"), 2, 1);
  }
}

TEST_F(Profile, OfADeviceWithQueues) {
  train({"--set", "device.backend=simulated"});
  const json profile = file("profile.json");
  const json& rank = profile["ranks"][0];
  EXPECT_EQ(rank["device_utilisation"], 0.42) << "what the simulated device says";
  const auto tracks = test::read_trace(file("trace.json"));
  for (const auto& [tid, what] : {std::pair{1, "host"}, {2, "stream"}, {3, "transfers"}})
    EXPECT_TRUE(tracks.contains({0, tid})) << what;
  expect_steps_add_up(file("trace.json"), 1, 2);
  EXPECT_THAT(err_, HasSubstr("idle"));
}

TEST_F(Profile, IsOffByDefault) {
  train({"--set", "device.backend=reference", "--set", "profiling.enabled=false"});
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "run/profile.json"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "run/trace.json"));
  EXPECT_THAT(err_, Not(HasSubstr("profile of rank")));
}

TEST_F(Profile, ARunThatIsTooShortSaysSo) {
  train({"--set", "device.backend=reference", "--max-steps", "3"});
  EXPECT_THAT(err_, HasSubstr("profiling: a rank made fewer than 4 steps, so that none was "
                              "recorded; lower profiling.wait or warmup"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "run/profile.json"));
}

// The steps of a rank are its work items, and ranks may have different numbers of them.
TEST_F(Profile, AsynchronousTrainingIsProfiled) {
  train({"--set", "device.backend=reference", "--nproc", "2", "--set", "comm.backend=local",
         "--set", "parallelism.update=asynchronous", "--set", "parallelism.max_staleness=1"});
  const json profile = file("profile.json");
  ASSERT_EQ(profile["ranks"].size(), 2u);
  for (const auto& rank : profile["ranks"]) {
    EXPECT_GE(rank["recorded_steps"], 1);
    double sum = 0;
    for (const auto& operation : rank["operations"]) sum += operation["time_ns"].get<double>();
    for (const char* part :
         {"data_wait_ns", "prepare_ns", "upload_ns", "report_ns", "between_ns", "exchange_ns"}) {
      EXPECT_GE(rank[part], 0) << part;
      sum += rank[part].get<double>();
    }
    EXPECT_GT(rank["exchange_ns"], 0);
    EXPECT_LE(sum, rank["step_ns"].get<double>() * 1.0001);
  }
  EXPECT_THAT(test::read_text(folder_.path() / "run/trace.json"), HasSubstr("\"exchange\""));
}

}  // namespace
}  // namespace runtime::cli
