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
  s.log = {1.0 / 3, 7, 1792};
  s.metrics_bytes = 12345678901;
  s.validated = 235;
  s.monitored = 0.1 + 0.2;
  s.best = {-0.25, 0.3};
  s.data = "60000 samples, checksum 01234567";
  s.environment = "cpu:0";
  s.created = "2026-11-25T02:07:03Z";
  return s;
}

TEST(SavedState, ComesBackWithTheSameBits) {
  const SavedState s = example(), back = parse_saved_state(to_json(s), "manifest.json");
  EXPECT_EQ(to_json(back), to_json(s));
  EXPECT_EQ(back.log.loss, s.log.loss);
  EXPECT_EQ(back.monitored, s.monitored);
  EXPECT_EQ(back.mesh.size(), 24);
  EXPECT_EQ(back.stages, s.stages);
  EXPECT_EQ(back.epoch(), 2);
}

TEST(SavedState, KeepsALossThatIsNoNumber) {
  SavedState s = example();
  s.log.loss = NAN;
  s.monitored.reset();
  const SavedState back = parse_saved_state(to_json(s), "manifest.json");
  EXPECT_TRUE(std::isnan(back.log.loss));
  EXPECT_FALSE(back.monitored.has_value());
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
