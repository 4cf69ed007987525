// Tests the plugin nccl with the real NCCL and one GPU. NCCL refuses two ranks on one device, so
// there is one rank; the tests skip themselves where there is no GPU or no NCCL.
#include <gtest/gtest.h>

#include "plugins/conformance/communicator.h"
#include "tests/collectives/nccl/on_stream.h"

namespace collectives::nccl::testing {
namespace {

namespace conformance = plugins::conformance;

class NcclOnAGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    const host::DeviceInfo found = host::list_devices(*load(CUDA_PLUGIN)).at(0);
    if (!found.usable()) GTEST_SKIP() << found.properties.unusable_reason;
    try {
      load(NCCL_PLUGIN);
    } catch (const host::Error& error) {
      if (std::string(error.what()).find("libnccl.so") == std::string::npos) throw;
      GTEST_SKIP() << error.what();
    }
  }
};

TEST_F(NcclOnAGpu, ConformsWithOneRank) {
  on_ranks(1, [](const Rank& it, int32_t rank) {
    const conformance::Summary summary = run_communicator_cases(
        {it.communicator, rank, 1, it.device}, conformance::communicator_cases());
    EXPECT_EQ(summary.failed, 0) << summary.text();
    EXPECT_GT(summary.passed, 100) << summary.text();
  });
}

TEST_F(NcclOnAGpu, RecordsCollectives) {
  for (const int32_t kind : {RT_ALL_REDUCE, RT_REDUCE_SCATTER, RT_ALL_GATHER, RT_BROADCAST})
    on_ranks(1, [&](const Rank& it, int32_t) { expect_replays_like_calls(it, kind); });
}

TEST_F(NcclOnAGpu, AbortDoesNotWaitForARecording) {
  on_ranks(1, [](const Rank& it, int32_t) {
    OnStream on(it, RT_ALL_REDUCE);
    it.communicator->enqueue(on.call.collective).wait(kLong);
    host::Recording recording(on.stream, [&] { it.communicator->enqueue(on.call.collective); });
    recording.replay(on.stream);
    on.stream.synchronize();
    it.communicator->abort();
    EXPECT_TRUE(it.communicator->asynchronous_error().has_value());
    recording = {};
  });
}

TEST_F(NcclOnAGpu, AbortsWhileACallStarts) {
  for (const int32_t kind : {RT_ALL_REDUCE, RT_ALL_TO_ALL}) {
    on_ranks(1, [&](const Rank& it, int32_t) {
      Call call(it, kind);
      abort_while(it, 50us, [&] { it.communicator->enqueue(call.collective); });
    });
  }
}

TEST_F(NcclOnAGpu, AbortsWhileItSplits) {
  on_ranks(1, [](const Rank& it, int32_t) {
    abort_while(it, 1ms, [&] { it.communicator->split(0, 0, kLong); });
  });
}

}  // namespace
}  // namespace collectives::nccl::testing
