// How much a device may differ from another one in a step: by what it claims for its operations.
#include "tools/verify/step_trace.h"

#include <gtest/gtest.h>

#include "runtime/train/open.h"
#include "runtime/train/rank/step_programs.h"
#include "tests/runtime/support/devices.h"

namespace runtime::verify {
namespace {

double tolerance_of(const std::string& device, const std::string& claim) {
  std::map<std::string, std::string> options;
  if (!claim.empty()) options["claim"] = claim;
  const config::Config config = test::parse(R"(
[model]
input = [6]
layers = [ { type = "linear", features = 3 } ]
[dataset]
name = "synthetic"
samples = 8
classes = 3
[training]
global_batch_size = 4
)");
  const data::DatasetPair data = train::open_data(config, "");
  train::StepPrograms programs(train::RankSetup(config, data.train->spec(),
                                                test::open_device(device, options),
                                                exec::CompileOptions{{.tune = exec::Tune::kOff}}));
  StepTrace trace(programs);
  EXPECT_EQ(trace.tolerance(), 1e-4);
  return trace.tolerance_with_claims();
}

TEST(StepTrace, ToleratesWhatTheDeviceClaims) {
  EXPECT_EQ(tolerance_of("reference", ""), 1e-4) << "it claims nothing";
  EXPECT_EQ(tolerance_of("simulated", "2e-5"), 1e-4);
  EXPECT_EQ(tolerance_of("simulated", "5e-4"), 5e-4);
  EXPECT_EQ(tolerance_of("simulated", "0.5"), 1e-3) << "the contract accepts no more";
  EXPECT_EQ(tolerance_of("simulated", "nan"), 1e-4);
}

}  // namespace
}  // namespace runtime::verify
