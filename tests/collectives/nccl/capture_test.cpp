// Collectives of the plugin nccl in recordings of a stream, with simulated versions of NCCL and of
// the CUDA runtime (tests/doubles). As the real one, the simulated ncclCommAbort waits until no
// graph has calls of the communicator.
#include <gmock/gmock.h>

#include <thread>

#include "tests/collectives/nccl/on_stream.h"

namespace collectives::nccl::testing {
namespace {

using ::testing::HasSubstr;

class NcclCapture : public ::testing::TestWithParam<int32_t> {};

TEST_P(NcclCapture, AReplayGivesWhatTheCallGives) {
  on_ranks(2, [](const Rank& it, int32_t) { expect_replays_like_calls(it, GetParam()); });
}

INSTANTIATE_TEST_SUITE_P(Kinds, NcclCapture,
                         ::testing::Values(RT_ALL_REDUCE, RT_REDUCE_SCATTER, RT_ALL_GATHER,
                                           RT_BROADCAST));

TEST(NcclCapture, TheKindsThatMayBeRecordedAreListed) {
  for (const rt_comm_capability& row : host::list_capabilities(*load(NCCL_PLUGIN))) {
    const bool may = row.collective != RT_ALL_TO_ALL && row.collective != RT_SEND &&
                     row.collective != RT_RECEIVE && row.collective != RT_BARRIER;
    EXPECT_EQ((row.flags & RT_COMM_CAPTURABLE) != 0, may) << row.collective;
  }
}

TEST(NcclCapture, OtherKindsAreRefusedWhileRecording) {
  on_ranks(1, [](const Rank& it, int32_t) {
    OnStream on(it, RT_ALL_TO_ALL);
    const auto error = error_of(
        [&] { host::Recording(on.stream, [&] { it.communicator->enqueue(on.call.collective); }); });
    EXPECT_EQ(error.code(), RT_ERROR_UNSUPPORTED);
    EXPECT_THAT(error.what(), HasSubstr("cannot be captured"));
    it.communicator->enqueue(on.call.collective).wait(kLong);
  });
}

// Rank 1 does not replay, so rank 0 waits in its replay. The abort ends it, and does not wait for
// the recording, which this thread destroys later.
TEST(NcclCapture, AbortEndsAReplay) {
  on_ranks(2, [](const Rank& it, int32_t rank) {
    OnStream on(it, RT_ALL_REDUCE);
    host::Recording recording(on.stream, [&] { it.communicator->enqueue(on.call.collective); });
    if (rank == 0) {
      std::thread other([&] {
        std::this_thread::sleep_for(20ms);
        it.communicator->abort();
      });
      recording.replay(on.stream);
      on.stream.synchronize();
      other.join();
    } else {
      it.communicator->abort();
    }
    EXPECT_TRUE(it.communicator->asynchronous_error().has_value());
    EXPECT_EQ(error_of([&] { it.communicator->enqueue(on.call.collective); }).code(),
              RT_ERROR_ABORTED);
    recording = {};
  });
}

}  // namespace
}  // namespace collectives::nccl::testing
