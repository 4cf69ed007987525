// An evaluation keeps weights from batch to batch in other forms (packed, and scaled by batch
// normalisations), which must follow every change of the weights and of the running statistics.
#include <gtest/gtest.h>

#include "tests/runtime/train/job.h"

namespace runtime::train {
namespace {

class KeptWeights : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!test::has_backend(GetParam())) GTEST_SKIP() << "no backend " << GetParam();
  }
  // The outputs of a new trainer that has the same weights and statistics.
  Numbers anew(Job& job, const data::Batch& batch) {
    Job other(kResidual, GetParam());
    other.trainer->set_weights(job.trainer->weights(), "weights");
    return other.trainer->outputs(batch);
  }
};

TEST_P(KeptWeights, AreMadeAgainAfterEveryChange) {
  Job job(kResidual, GetParam());
  const data::Batch batch = job.loader->next();
  Numbers before = job.trainer->outputs(batch);
  const auto expect_changed = [&](const std::string& what) {
    SCOPED_TRACE(what);
    const Numbers now = job.trainer->outputs(batch);
    EXPECT_GT(test::relative_error(now, before), 1e-4);
    EXPECT_EQ(now, anew(job, batch));
    before = now;
  };
  EXPECT_EQ(before, anew(job, batch));
  job.step(2);
  expect_changed("steps");
  job.trainer->gradients(batch);
  expect_changed("a backward pass, which moves the running statistics");
  Job trained(kResidual, GetParam());
  trained.step(5);
  job.trainer->set_weights(trained.trainer->weights(), "weights");
  expect_changed("loaded weights");
}

INSTANTIATE_TEST_SUITE_P(Backends, KeptWeights, testing::Values("reference", "cpu"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace runtime::train
