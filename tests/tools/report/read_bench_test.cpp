// Checks what is read from bench and scaling results.
#include "tools/report/read_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"
#include "tests/tools/report/files.h"

namespace tools::report {
namespace {

using testing::DoubleEq;
using testing::HasSubstr;

Bench bench_of(const std::string& text) {
  const test::Folder folder;
  return read_bench(folder.write("bench.json", text));
}

const Comparison& find(const Bench& bench, const std::string& what) {
  for (const Comparison& c : bench.comparisons)
    if (c.what == what) return c;
  ADD_FAILURE() << what << " is not compared";
  return bench.comparisons.at(0);
}

TEST(Bench, ScalingHasARowForEachNumberOfRanks) {
  const Bench bench = bench_of(R"({"config":"lenet","device":"cpu:0","mode":"fixed_global_batch",
    "runs":[{"ranks":1,"step_ms":8,"samples_per_second":32000,"speed_up":1,"efficiency":1,
             "predicted_efficiency":1},
            {"ranks":2,"step_ms":5,"speed_up":1.6,"efficiency":0.8,"predicted_efficiency":0.9,
             "mesh":{"data":2,"tensor":1,"pipeline":1},"predicted_step_ms":4.5,"pays":true}]})");
  EXPECT_EQ(bench.source, "bench.json: lenet on cpu:0");
  ASSERT_EQ(bench.rows.size(), 2u);
  EXPECT_EQ(bench.rows[1].mesh, "2 x 1 x 1");
  EXPECT_TRUE(bench.rows[1].pays.value());
  EXPECT_FALSE(bench.rows[0].pays);
  EXPECT_THAT(find(bench, "step, 2 ranks").predicted, DoubleEq(4.5e-3));
  EXPECT_THAT(find(bench, "efficiency, 2 ranks").measured, DoubleEq(0.8));
}

TEST(Bench, OneRunIsComparedWithItsPrediction) {
  const Bench bench = bench_of(R"({"step_ms_median":9,"predicted_step_ms":8,
    "memory":[{"rank":0,"planned_bytes":100,"allocated_bytes":110}]})");
  EXPECT_TRUE(bench.rows.empty());
  EXPECT_THAT(find(bench, "step").measured, DoubleEq(9e-3));
  EXPECT_EQ(find(bench, "memory of rank 0").kind, Comparison::Kind::kBytes);
  EXPECT_EQ(find(bench, "memory of rank 0").measured, 110);
}

TEST(Bench, ScalingJsonOfARunIsCompared) {
  const Bench bench = bench_of(R"({"ranks":2,"backend":"gloo","step_ms":5,"t_comp_ms":4,
    "predicted_step_ms":4.5,"predicted_t_comp_ms":4.2,"efficiency":0.9,"predicted_efficiency":null,
    "exposed_t_sync_ms_by_axis":{"data":1,"tensor":0},
    "predicted_exposed_t_sync_ms_by_axis":{"data":0.5,"tensor":0}})");
  EXPECT_EQ(bench.source, "bench.json over gloo, 2 ranks");
  EXPECT_EQ(bench.comparisons.size(), 3u) << "what is not predicted or 0 is left out";
  EXPECT_THAT(find(bench, "waiting for collectives, axis data").predicted, DoubleEq(0.5e-3));
}

TEST(Bench, WhatIsWrongIsNamed) {
  const auto error = [](const std::string& text) {
    return test::message_of<runtime::DataError>([&] { bench_of(text); });
  };
  EXPECT_THAT(error("{}"), HasSubstr("expected the output of runtime bench --json"));
  EXPECT_THAT(error(R"({"runs":[]})"), HasSubstr("runs: expected at least one run"));
  EXPECT_THAT(error(R"({"runs":[{"ranks":"1"}]})"), HasSubstr("runs[0].ranks"));
  EXPECT_THAT(error(R"({"runs":[{"ranks":1,"step_ms":1,"pays":1}]})"),
              HasSubstr("pays: expected true or false"));
  EXPECT_THAT(error(R"({"step_ms_median":1,"memory":[{}]})"), HasSubstr("memory[0].rank"));
}

}  // namespace
}  // namespace tools::report
