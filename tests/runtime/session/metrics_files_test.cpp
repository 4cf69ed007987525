// Files and pages of ranks; runtime/train/loop_test.cpp has the other files of metrics.
#include "runtime/session/reports/metrics_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "runtime/error.h"
#include "runtime/session/reporters.h"
#include "tests/runtime/support/devices.h"

namespace runtime::session {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string rank_lines(int steps) {
  std::string text;
  for (int step = 2; step <= steps; step += 2)
    text += "{\"rank\":3,\"steps\":" + std::to_string(step) + "}\n";
  return text;
}

// Ranks that the run has no more keep what they had done before its checkpoint.
TEST(RankFiles, OfRanksThatAreGoneAreCut) {
  const test::TemporaryFolder folder;
  for (const char* name : {"rank2.jsonl", "rank3.jsonl", "rank03.jsonl", "other.jsonl"})
    folder.write(name, rank_lines(8));
  cut_rank_files(folder.path(), 3, 4);
  EXPECT_EQ(test::read_text(folder.path() / "rank3.jsonl"), rank_lines(4));
  for (const char* name : {"rank2.jsonl", "rank03.jsonl", "other.jsonl"})
    EXPECT_EQ(test::read_text(folder.path() / name), rank_lines(8)) << name;
  cut_rank_files(folder.path() / "nowhere", 0, 0);
}

TEST(RankFiles, GoOnBehindTheirCheckpoint) {
  const test::TemporaryFolder folder;
  const std::string path = (folder.path() / "ranks" / rank_file(3)).string();
  std::ostringstream warnings;
  make_rank_file(path, {"run", 3, "b"}, 0, warnings);
  EXPECT_EQ(test::read_text(path), "");
  folder.write("ranks/rank3.jsonl", rank_lines(8) + "no JSON\n{\"steps\":\"9\"}\n{\"steps\":1");
  const auto reporter = make_rank_file(path, {"run", 3, "b"}, 6, warnings);
  train::Metrics metrics;
  metrics.step = 8;
  reporter->line(metrics);
  reporter->finish();
  const std::string text = test::read_text(path);
  EXPECT_TRUE(text.starts_with(rank_lines(6) + "{\"time\":")) << text;
  EXPECT_THAT(text, AllOf(HasSubstr("\"host\":\"b\",\"steps\":8,"), testing::Not(HasSubstr("no"))));
  EXPECT_EQ(warnings.str(), "");
}

TEST(RankPages, APortBehindTheLastOneIsRefused) {
  config::Config config;
  config.metrics.prometheus_port = 65534;
  try {
    launch::RankEnvironment place;
    place.rank = 5;
    place.local_rank = 2;
    make_rank_page(config, place);
    ADD_FAILURE();
  } catch (const ConfigurationError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 5 the port 65536"), HasSubstr("65535")));
  }
}

}  // namespace
}  // namespace runtime::session
