// Checks what is read from a run's folder, and what is missing in it.
#include "tools/report/read_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"
#include "tests/tools/report/files.h"

namespace tools::report {
namespace {

using testing::HasSubstr;
// In a test `Run` is a member of GoogleTest.
using RunFiles = Run;

constexpr char kLine[] = "{\"step\":4,\"epoch\":0,\"loss\":1,\"samples_per_second\":10}\n";
constexpr char kManifest[] = R"({"crc32":"00000000","manifest":{"format":1,"state":{"step":4,
  "steps_per_epoch":8,"mesh":{"data":2,"tensor":1,"pipeline":1},
  "environment":"cpu:0 (A processor), 2 threads, build","created":"2026-01-31T10:15:00Z"}}})";

std::string fact(const Run& run, const std::string& name) {
  for (const Fact& f : run.facts)
    if (f.name == name) return f.value;
  return "";
}

TEST(Run, AllFilesOfTheFolderAreRead) {
  const test::Folder folder;
  folder.write("run/metrics.jsonl", kLine);
  folder.write("run/config.toml", "[training]\nglobal_batch_size = 5\n[launch]\nranks = 2\n");
  folder.write("run/scaling.json", R"({"t_comp_ms":4,"step_ms":5,"predicted_step_ms":6})");
  folder.write("run/checkpoints/step-000004/manifest.json", kManifest);
  const RunFiles run = read_run(folder.path() / "run/");
  EXPECT_EQ(run.name, "run");
  EXPECT_EQ(run.metrics.steps, 4);
  EXPECT_EQ(run.metrics.seconds, 2) << "4 steps of 5 samples at 10 samples/s";
  EXPECT_EQ(run.metrics.steps_per_epoch, 8);
  EXPECT_EQ(run.benches.size(), 1u);
  EXPECT_FALSE(run.profile);
  EXPECT_EQ(fact(run, "device, threads, build"), "cpu:0 (A processor), 2 threads, build");
  EXPECT_EQ(fact(run, "newest checkpoint"), "step 4, 2026-01-31T10:15:00Z");
  EXPECT_EQ(fact(run, "mesh"), "data 2 x tensor 1 x pipeline 1");
  EXPECT_THAT(fact(run, "final weights"), HasSubstr("none"));
}

TEST(Run, ABatchOfEachRankCountsForAllRanks) {
  const test::Folder folder;
  folder.write("metrics.jsonl", kLine);
  folder.write("config.toml", "[training]\nbatch_size_per_rank = 5\n[launch]\nranks = 2\n");
  EXPECT_EQ(read_run(folder.path()).metrics.seconds, 4);
}

TEST(Run, AFolderWithoutMetricsIsNoted) {
  const test::Folder folder;
  folder.write("config.toml", "[optimizer]\nlr = 1\n");
  EXPECT_THAT(read_run(folder.path()).notes, testing::ElementsAre(HasSubstr("no metrics.jsonl")));
  folder.write("metrics.jsonl", "");  // as a run that diverges in its first step leaves it
  EXPECT_THAT(read_run(folder.path()).notes, testing::ElementsAre(HasSubstr("it has no line")));
}

TEST(Run, WhatIsNoFolderOfARunIsRefused) {
  const test::Folder folder;
  const auto error = [](const std::filesystem::path& path) {
    return test::message_of<runtime::ConfigurationError>([&] { read_run(path); });
  };
  EXPECT_THAT(error(folder.path()), HasSubstr("has no files of a run; expected a folder"));
  EXPECT_THAT(error(folder.path() / "none"), HasSubstr("there is no such folder"));
}

TEST(Run, ADamagedManifestIsNamed) {
  const test::Folder folder;
  folder.write("metrics.jsonl", kLine);
  folder.write("checkpoints/step-1/manifest.json", "{\"manifest\":{}}");
  EXPECT_THAT(test::message_of<runtime::DataError>([&] { read_run(folder.path()); }),
              HasSubstr("manifest.json.manifest: expected an object with an object \"state\""));
}

TEST(Run, EqualNamesGetTheirParents) {
  std::vector<RunFiles> runs(3);
  runs[0].name = runs[1].name = "run";
  runs[2].name = "other";
  runs[0].folder = "/data/a/run";
  runs[1].folder = "/data/b/run";
  make_names_differ(runs);
  EXPECT_EQ(runs[0].name, "a/run");
  EXPECT_EQ(runs[1].name, "b/run");
  EXPECT_EQ(runs[2].name, "other");
}

}  // namespace
}  // namespace tools::report
