// The reports of train, bench and plan about several ranks.
#include <nlohmann/json.hpp>

#include "tests/runtime/cli/program.h"

namespace runtime::cli {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Scaling : public ProgramTest {
 protected:
  static void expect_keys(const json& j, const std::vector<const char*>& keys) {
    for (const char* key : keys) EXPECT_TRUE(j.contains(key)) << key << " in " << j.dump();
  }
  void expect_refused(const std::vector<std::string>& arguments, const std::string& part) {
    const test::ProcessResult r = run(arguments);
    EXPECT_EQ(r.exit_code, 2) << r.err;
    EXPECT_THAT(r.err, HasSubstr(part));
  }
  bool scaling_file_exists() const {
    return std::filesystem::exists(folder_.path() / "run/scaling.json");
  }
};

const std::vector<const char*> kTimes = {"ranks",
                                         "backend",
                                         "global_batch_size",
                                         "step_ms",
                                         "t_comp_ms",
                                         "t_comp_alone_ms",
                                         "t_sync_ms",
                                         "exposed_t_sync_ms",
                                         "t_sync_ms_by_axis",
                                         "exposed_t_sync_ms_by_axis",
                                         "bubble",
                                         "speed_up",
                                         "efficiency",
                                         "predicted_efficiency",
                                         "predicted_step_ms",
                                         "predicted_bubble",
                                         "mesh",
                                         "memory",
                                         "pays",
                                         "pays_per_rank"};

void expect_consistent(const json& s) {
  const auto number = [&](const char* key) { return s[key].get<double>(); };
  EXPECT_NEAR(number("t_comp_ms") + number("exposed_t_sync_ms"), number("step_ms"), 1e-9);
  EXPECT_NEAR(number("t_comp_alone_ms") / number("step_ms"), number("speed_up"), 1e-9);
  EXPECT_NEAR(number("speed_up") / number("ranks"), number("efficiency"), 1e-9);
  EXPECT_EQ(s["pays"], number("step_ms") < number("t_comp_alone_ms"));
  EXPECT_EQ(s["pays_per_rank"],
            (number("t_comp_ms") + number("t_sync_ms")) / number("ranks") < number("t_comp_ms"));
  EXPECT_GT(number("t_sync_ms"), 0);
}

TEST_F(Scaling, ARunOfSeveralRanksSaysWhetherTheyPay) {
  const test::ProcessResult r =
      run({"train", job_, "--set", "job.dump_folder=run", "--nproc", "2"});
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_THAT(r.err,
              AllOf(HasSubstr("2 ranks, global batch 8: T_comp "), HasSubstr("efficiency "),
                    HasSubstr("fixed global batch: adding ranks "),
                    HasSubstr("fixed batch per rank: adding ranks "), HasSubstr("done: 12 steps")));
  const json s = json::parse(test::read_text(folder_.path() / "run/scaling.json"));
  expect_keys(s, kTimes);
  expect_consistent(s);
  EXPECT_EQ(s["ranks"], 2);
  EXPECT_EQ(s["backend"], "local");
  EXPECT_GT(s["predicted_efficiency"], 0);
  EXPECT_GT(s["predicted_step_ms"], 0);
  EXPECT_EQ(s["mesh"], json({{"data", 2}, {"tensor", 1}, {"pipeline", 1}}));
  ASSERT_EQ(s["memory"].size(), 2u);
  expect_keys(s["memory"][1], {"rank", "planned_bytes", "allocated_bytes", "parameters", "arena"});
}

TEST_F(Scaling, OneRankSaysNothing) {
  const test::ProcessResult r = run({"train", job_, "--set", "job.dump_folder=run"});
  EXPECT_THAT(r.err, Not(HasSubstr("adding ranks")));
  EXPECT_FALSE(scaling_file_exists());
}

TEST_F(Scaling, ProgressOffIsQuietButTheFileIsThere) {
  const test::ProcessResult r = run({"train", job_, "--set", "job.dump_folder=run", "--nproc", "2",
                                     "--set", "metrics.progress=off"});
  EXPECT_EQ(r.exit_code, 0);
  EXPECT_THAT(r.err, Not(HasSubstr("adding ranks")));
  EXPECT_TRUE(scaling_file_exists());
}

TEST_F(Scaling, BenchOfSeveralRanks) {
  const json j = json::parse(output({"bench", job_, "--nproc", "3", "--steps", "5", "--json"}));
  EXPECT_EQ(j["world_size"], 3);
  expect_keys(j, {"peak_memory_bytes", "peak_memory_bytes_all_ranks", "scaling"});
  expect_keys(j["scaling"], kTimes);
  expect_consistent(j["scaling"]);
  // Ranks that are threads share one process, whose memory is measured as a whole.
  EXPECT_EQ(j["peak_memory_bytes"], j["peak_memory_bytes_all_ranks"]);
  // FLOPs count the work of the whole batch, independent of the number of ranks, and the update,
  // which every rank does.
  const json one = json::parse(output({"bench", job_, "--steps", "5", "--json"}));
  const auto flops = [](const json& b) {
    return b["flops_per_second"].get<double>() * b["step_ms_median"].get<double>();
  };
  EXPECT_GT(flops(j) / flops(one), 1);
  EXPECT_LT(flops(j) / flops(one), 2);
  EXPECT_THAT(output({"bench", job_, "--nproc", "2", "--steps", "5"}),
              AllOf(HasSubstr("2 ranks over local"), HasSubstr("adding ranks")));
}

TEST_F(Scaling, LayersOfSeveralRanksArePrintedOnce) {
  const std::string out = output({"bench", job_, "--nproc", "2", "--steps", "5", "--layers"});
  EXPECT_THAT(out, AllOf(HasSubstr("wait all_reduce"), HasSubstr("matmul")));
  EXPECT_EQ(out.find("implementation"), out.rfind("implementation"));
}

TEST_F(Scaling, TableOverNumbersOfRanks) {
  const json j = json::parse(
      output({"bench", job_, "--scaling", "2,3", "--steps", "5", "--rounds", "3", "--json"}));
  expect_keys(j, {"config", "device", "mode", "threads_per_rank", "rounds", "runs"});
  EXPECT_EQ(j["mode"], "fixed_global_batch");
  ASSERT_EQ(j["runs"].size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const json& r = j["runs"][i];
    EXPECT_EQ(r["ranks"], i + 1);
    EXPECT_EQ(r["global_batch_size"], 8);
    expect_keys(r, {"step_ms", "samples_per_second", "speed_up", "efficiency", "t_comp_ms",
                    "t_sync_ms", "exposed_t_sync_ms", "predicted_efficiency"});
    EXPECT_EQ(r.contains("pays"), i > 0);
    if (i > 0) {
      EXPECT_EQ(r["pays"], r["speed_up"] > 1);
    }
  }
  EXPECT_EQ(j["runs"][0]["speed_up"], 1);
  const std::string table = output({"bench", job_, "--scaling", "1,2", "--steps", "5", "--weak"});
  EXPECT_THAT(table, AllOf(HasSubstr("fixed batch per rank"), HasSubstr("speed-up"),
                           HasSubstr("    2     16 "),
                           HasSubstr("2 ranks, fixed batch per rank: "
                                     "adding ranks ")));
}

TEST_F(Scaling, BenchComm) {
  const json j = json::parse(output(
      {"bench", "comm", "--nproc", "3", "--min-bytes", "1K", "--max-bytes", "16K", "--json"}));
  expect_keys(j, {"world_size", "backend", "results", "latency_us", "bandwidth_gbps"});
  EXPECT_EQ(j["world_size"], 3);
  ASSERT_EQ(j["results"].size(), 6u * 3);
  for (const json& r : j["results"]) {
    expect_keys(r, {"collective", "bytes", "count", "type", "time_us", "algorithm_bandwidth_gb_s",
                    "bus_bandwidth_gb_s", "wrong"});
    EXPECT_EQ(r["wrong"], 0) << r.dump();
    EXPECT_LE(r["bytes"], 16384);
    const double factor = r["collective"] == "all_reduce"                                 ? 4.0 / 3
                          : r["collective"] == "broadcast" || r["collective"] == "reduce" ? 1
                                                                                          : 2.0 / 3;
    EXPECT_NEAR(r["bus_bandwidth_gb_s"].get<double>(),
                factor * r["algorithm_bandwidth_gb_s"].get<double>(), 1e-9);
  }
  EXPECT_THAT(
      output({"bench", "comm", job_, "--collective", "all_reduce,broadcast", "--max-bytes", "4K"}),
      AllOf(HasSubstr("2 ranks over local"), HasSubstr("all_reduce"), HasSubstr("busbw"),
            HasSubstr("#wrong"), HasSubstr("cluster.link_latency_us="),
            Not(HasSubstr("all_to_all"))));
}

TEST_F(Scaling, PlanOfARankOfMany) {
  const std::string out =
      output({"plan", job_, "--world-size", "4", "--set", "parallelism.zero_stage=1", "--set",
              "cluster.link_latency_us=100", "--set", "cluster.link_gbps=1", "--set",
              "optimizer.momentum=0.9"});
  EXPECT_THAT(out,
              AllOf(HasSubstr("batch 8, rank 0 of 4"), HasSubstr("53 parameters"),
                    HasSubstr("reduce_scatter, bucket 0"), HasSubstr("all_gather, parameters"),
                    HasSubstr("on the wire"), HasSubstr("latency 100.0 us, bandwidth 1.0 Gbit"),
                    HasSubstr("0-3 "), HasSubstr("measured, operation by operation")));
  EXPECT_THAT(output({"plan", job_, "--world-size", "4", "--set", "device.tune=off"}),
              HasSubstr("does not estimate times"));
}

TEST_F(Scaling, PlanOfAClusterThatIsNotHere) {
  const std::string out =
      output({"plan", job_, "--set", "cluster.nodes=2", "--set", "cluster.devices_per_node=2",
              "--set", "cluster.tflops=100", "--set", "cluster.memory_tbps=2", "--set",
              "cluster.memory_gib=0.000001", "--set", "cluster.network_latency_us=7", "--set",
              "cluster.network_gbps=50", "--set", "cluster.network_sharers=2"});
  EXPECT_THAT(out,
              AllOf(HasSubstr("rank 0 of 4"), HasSubstr("between nodes"),
                    HasSubstr("network between 2 nodes of 2 ranks, for each rank: latency 7.0 "
                              "us, bandwidth 25.0 Gbit/s"),
                    HasSubstr("and has 0.00 MiB"), HasSubstr("a device of 100 TFLOP/s and 2 TB/s"),
                    HasSubstr("computed from [cluster]"), HasSubstr("efficiency ")));
}

TEST_F(Scaling, PlanOfAMesh) {
  const std::string out =
      output({"plan", job_, "--world-size", "4", "--set", "parallelism.tensor=2", "--set",
              "parallelism.pipeline=2", "--set", "parallelism.microbatches=2"});
  EXPECT_THAT(out, AllOf(HasSubstr("send, "), HasSubstr("0-1 "), HasSubstr("2-3 "),
                         HasSubstr("tensor: bytes"), HasSubstr("pipeline: bytes"),
                         HasSubstr("(data 1 x tensor 2 x pipeline 2), global batch 8"),
                         HasSubstr("; bubble 0.")));
  expect_refused({"plan", job_, "--world-size", "3", "--set", "parallelism.tensor=2"}, "divide");
}

TEST_F(Scaling, ARunOfAMeshReportsItsAxes) {
  const test::ProcessResult r =
      run({"train", job_, "--set", "job.dump_folder=run", "--nproc", "2", "--set",
           "parallelism.pipeline=2", "--set", "parallelism.microbatches=2"});
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_THAT(r.err, AllOf(HasSubstr("pipeline: T_sync "), HasSubstr("; bubble "),
                           HasSubstr("memory of rank 1: "), HasSubstr("allocated, planned")));
  const json s = json::parse(test::read_text(folder_.path() / "run/scaling.json"));
  EXPECT_EQ(s["exposed_t_sync_ms"], s["exposed_t_sync_ms_by_axis"]["pipeline"]);
  EXPECT_GT(s["bubble"], 0);
  EXPECT_GT(s["predicted_bubble"], 0);
  EXPECT_FALSE(s.contains("pays_per_rank"));
}

TEST_F(Scaling, SearchProposesAMeshThatTrainTakes) {
  const std::string search = "parallelism.search=true";
  EXPECT_THAT(output({"plan", job_, "--world-size", "2", "--set", search}),
              AllOf(HasSubstr("data 2 x tensor 1 x pipeline 1 "),
                    HasSubstr("data 1 x tensor 2 x pipeline 1 "),
                    HasSubstr("data 1 x tensor 1 x pipeline 2 "), HasSubstr("proposed: ")));
  const test::ProcessResult r = run({"train", job_, "--set", "job.dump_folder=run", "--nproc", "2",
                                     "--set", search, "--set", "debug.deterministic=true"});
  ASSERT_EQ(r.exit_code, 0) << r.err;
  // The other meshes cannot be used with debug.deterministic.
  EXPECT_THAT(r.err, HasSubstr("parallelism.search takes data 2 x tensor 1 x pipeline 1"));
  const std::string saved = test::read_text(folder_.path() / "run/config.toml");
  EXPECT_THAT(saved, AllOf(HasSubstr("data = 2"), Not(HasSubstr("search = true"))));
  expect_refused({"plan", job_, "--set", search, "--set", "parallelism.tensor=2"}, "search");
}

TEST_F(Scaling, PlanPredictsWhereTheDeviceEstimates) {
  if (!test::has_backend("cpu")) GTEST_SKIP() << "the cpu backend was not built";
  const std::vector<std::string> plan = {
      "plan", job_, "--world-size", "2", "--set", "device.backend=cpu", "--set", "device.tune=off"};
  EXPECT_THAT(output(plan), AllOf(HasSubstr("efficiency "), HasSubstr("T_comp(B/R)")));
  std::vector<std::string> slow = plan;
  slow.insert(slow.end(), {"--set", "cluster.link_latency_us=1000000"});
  EXPECT_THAT(output(slow), HasSubstr("fixed global batch: adding ranks does not pay"));
}

TEST_F(Scaling, OneRanksPlanIsAsBefore) {
  const std::vector<std::string> plan = {"plan", job_, "--set", "device.tune=off"};
  std::vector<std::string> one = plan;
  one.insert(one.end(), {"--world-size", "1"});
  EXPECT_EQ(output(plan), output(one));
  EXPECT_THAT(output(plan), Not(HasSubstr("link (")));
}

TEST_F(Scaling, BadInput) {
  expect_refused({"bench"}, "CONFIG is missing");
  expect_refused({"bench", job_, "--scaling", "1,x"}, "--scaling");
  expect_refused({"bench", job_, "--scaling", "0"}, "--scaling");
  expect_refused({"bench", job_, "--scaling", "1,2", "--nproc", "2"}, "--nproc");
  expect_refused({"bench", job_, "--scaling", "1,2", "--layers"}, "--layers");
  expect_refused({"bench", job_, "--weak"}, "--scaling");
  expect_refused({"bench", job_, "--rounds", "2"}, "--scaling");
  expect_refused({"bench", job_, "--scaling", "16", "--steps", "1"}, "--nproc 16");
  expect_refused({"bench", job_, "--nproc", "2", "--set", "parallelism.update=asynchronous",
                  "--set", "parallelism.max_staleness=2"},
                 "synchronous steps");
  expect_refused({"bench", "comm", "--collective", "all_reduse"}, "all_reduse");
  expect_refused({"bench", "comm", "--min-bytes", "1M", "--max-bytes", "1K"}, "--min-bytes");
  expect_refused({"bench", "comm", "--min-bytes", "much"}, "--min-bytes");
  expect_refused({"bench", "comm", "--nproc", "1"}, "--nproc 2");
  expect_refused({"bench", "comm", "absent.toml"}, "absent.toml");
  expect_refused({"plan", job_, "--world-size", "0"}, "--world-size");
  expect_refused({"plan", job_, "--world-size", "9"}, "training.global_batch_size");
  expect_refused({"plan", job_, "--world-size", "2", "--set", "cluster.link_gbps=-1"},
                 "cluster.link_gbps");
  expect_refused({"plan", job_, "--set", "cluster.nodes=2"}, "cluster.devices_per_node");
  expect_refused({"plan", job_, "--set", "cluster.tflops=100"}, "cluster.memory_tbps");
  expect_refused({"plan", job_, "--set", "cluster.network_sharers=2"}, "cluster.network_sharers");
  expect_refused({"plan", job_, "--world-size", "4", "--set", "cluster.devices_per_node=2"},
                 "at most 2 ranks");
}

TEST_F(Scaling, ABatchPerRankIsWeakScaling) {
  folder_.write("weak.toml", [] {
    std::string text = kTinyJob;
    const std::string from = "global_batch_size = 8";
    return text.replace(text.find(from), from.size(), "batch_size_per_rank = 8");
  }());
  expect_refused({"bench", "weak.toml", "--scaling", "1,2"}, "--weak");
  const json j = json::parse(
      output({"bench", "weak.toml", "--scaling", "1,2", "--weak", "--steps", "5", "--json"}));
  EXPECT_EQ(j["mode"], "fixed_batch_per_rank");
  EXPECT_EQ(j["runs"][1]["global_batch_size"], 16);
}

}  // namespace
}  // namespace runtime::cli
