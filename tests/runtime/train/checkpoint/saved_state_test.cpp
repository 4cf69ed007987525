// Checks that the state of a job comes back, also that of older programs.
#include "runtime/train/checkpoint/saved_state.h"

#include <gtest/gtest.h>

#include <cmath>

#include "runtime/error.h"

namespace runtime::train {
namespace {

SavedState example() {
  SavedState s;
  s.step = 470;
  s.steps_per_epoch = 235;
  s.mesh = {2, 3, 4};
  s.speeds = {0.1, 1e300};
  s.stages = {{"conv1", 0}, {"fc \"1\"", 1}};
  s.log = {{1.0 / 3, 6.5, 7}, 1792};
  s.metrics_bytes = 12345678901;
  s.validated = 235;
  s.monitored = 0.1 + 0.2;
  s.best = {-0.25, 0.3};
  s.best_validation = {1.0 / 7, 235, 1.0 / 7, 0.75};
  s.data = "60000 samples, checksum 01234567";
  s.environment = "cpu:0";
  s.created = "2026-11-25T02:07:03Z";
  return s;
}

TEST(SavedState, ComesBackWithTheSameBits) {
  const SavedState s = example(), back = parse_saved_state(to_json(s), "manifest.json");
  EXPECT_EQ(to_json(back), to_json(s));
  EXPECT_EQ(back.log.loss.sum, s.log.loss.sum);
  EXPECT_EQ(back.log.loss.weight, s.log.loss.weight);
  EXPECT_EQ(back.monitored, s.monitored);
  ASSERT_TRUE(back.best_validation);
  EXPECT_EQ(back.best_validation->value, 1.0 / 7);
  EXPECT_EQ(back.best_validation->step, 235);
  EXPECT_EQ(back.best_validation->accuracy, 0.75);
  EXPECT_EQ(back.mesh.size(), 24);
  EXPECT_EQ(back.stages, s.stages);
  EXPECT_EQ(back.epoch(), 2);
}

TEST(SavedState, KeepsALossThatIsNoNumber) {
  SavedState s = example();
  s.log.loss.sum = NAN;
  s.monitored.reset();
  const SavedState back = parse_saved_state(to_json(s), "manifest.json");
  EXPECT_TRUE(std::isnan(back.log.loss.sum));
  EXPECT_FALSE(back.monitored.has_value());
}

TEST(SavedState, StepsOfAnOlderProgramWeighOne) {
  SavedState s = example();
  s.best_validation.reset();
  std::string json = to_json(s);
  const std::string weight = "\"weight\":6.5,";
  ASSERT_NE(json.find(weight), std::string::npos);
  json.erase(json.find(weight), weight.size());
  const SavedState back = parse_saved_state(json, "manifest.json");
  EXPECT_EQ(back.log.loss.weight, 7);
  EXPECT_FALSE(back.best_validation);
}

TEST(SavedState, ARunOfAnOlderProgramHasAListOfItsSamples) {
  std::string json = to_json(example());
  EXPECT_FALSE(parse_saved_state(json, "manifest.json").listed_order);
  const std::string listed = "\"listed_order\":false,";
  ASSERT_NE(json.find(listed), std::string::npos);
  json.erase(json.find(listed), listed.size());
  const SavedState back = parse_saved_state(json, "manifest.json");
  EXPECT_TRUE(back.listed_order);
  EXPECT_TRUE(parse_saved_state(to_json(back), "manifest.json").listed_order);
}

TEST(SavedState, ImpossibleOnesAreRefused) {
  EXPECT_THROW(parse_saved_state("", "manifest.json"), DataError);
  EXPECT_THROW(parse_saved_state("{}", "manifest.json"), DataError);
  SavedState s = example();
  s.steps_per_epoch = 0;
  EXPECT_THROW(parse_saved_state(to_json(s), "manifest.json"), DataError);
  s = example();
  s.mesh.tensor = 0;
  EXPECT_THROW(parse_saved_state(to_json(s), "manifest.json"), DataError);
}

}  // namespace
}  // namespace runtime::train
