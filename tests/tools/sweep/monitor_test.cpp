// Checks which metrics a trial measures.
#include "tools/sweep/monitor.h"

#include <gmock/gmock.h>

namespace tools::sweep {
namespace {

using testing::HasSubstr;

std::string why(const std::string& monitor, const std::string& validation) {
  return why_not_measured(
      monitor, runtime::config::parse_toml("[validation]\n" + validation + "\n", "job.toml"));
}

TEST(Monitor, IsMeasuredByAValidation) {
  EXPECT_EQ(why("validation_loss", "every_epochs = 1\nevery_steps = 0"), "");
  EXPECT_EQ(why("validation_accuracy", "every_epochs = 0\nevery_steps = 5"), "");
  EXPECT_THAT(why("validation_loss", "every_epochs = 0\nevery_steps = 0"),
              HasSubstr("set one of them"));
  EXPECT_EQ(why("samples_per_second", "every_epochs = 0\nevery_steps = 0"), "");
}

TEST(Monitor, IsAmongTheMetrics) {
  EXPECT_EQ(why("validation_f1", "every_epochs = 1\nmetrics = [\"auroc\", \"f1\"]"), "");
  EXPECT_THAT(why("validation_f1", "every_epochs = 1\nmetrics = [\"auroc\"]"),
              HasSubstr("has no \"f1\""));
  EXPECT_THAT(why("validation_f1", "every_epochs = 1"), HasSubstr("has no \"f1\""));
}

}  // namespace
}  // namespace tools::sweep
