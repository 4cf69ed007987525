// A collective on a stream, and its recording.
#ifndef TESTS_COLLECTIVES_NCCL_ON_STREAM_H_
#define TESTS_COLLECTIVES_NCCL_ON_STREAM_H_

#include <vector>

#include "plugins/host/recording.h"
#include "tests/collectives/nccl/ranks.h"

namespace collectives::nccl::testing {

// A collective on a stream of its own. Rank r sends the numbers r + 1 and r + 11.
struct OnStream {
  OnStream(const Rank& rank, int32_t kind)
      : call(rank, kind, kind == RT_BROADCAST || kind == RT_REDUCE ? 0 : -1), stream(rank.device) {
    call.collective.stream = stream.get();
    set(static_cast<float>(rank.communicator->rank() + 1));
  }
  void set(float number) {
    const std::vector<float> numbers = {number, number + 10};
    stream.copy(call.sent.data(), numbers.data(), 8);
    stream.fill(call.received.data(), 0, 8);
  }
  std::vector<float> received() {
    std::vector<float> numbers(2);
    stream.copy(numbers.data(), call.received.data(), 8);
    stream.synchronize();
    return numbers;
  }
  Call call;
  host::Stream stream;
};

// A recorded collective does at each replay what the call did.
inline void expect_replays_like_calls(const Rank& it, int32_t kind) {
  const auto own = static_cast<float>(it.communicator->rank() + 1);
  OnStream on(it, kind);
  it.communicator->enqueue(on.call.collective).wait(kLong);
  const std::vector<float> expected = on.received();
  on.set(own);
  const std::vector<float> before = on.received();
  host::Work work;
  host::Recording recording(on.stream,
                            [&] { work = it.communicator->enqueue(on.call.collective); });
  EXPECT_TRUE(work.poll()) << "a recorded call is complete at once";
  EXPECT_EQ(on.received(), before) << "nothing runs while it is recorded";
  for (int i = 0; i < 3; ++i) {
    on.set(own);
    recording.replay(on.stream);
    EXPECT_EQ(on.received(), expected) << "replay " << i;
    // Calls that are not recorded may come between the replays.
    it.communicator->enqueue(on.call.collective).wait(kLong);
  }
}

}  // namespace collectives::nccl::testing

#endif  // TESTS_COLLECTIVES_NCCL_ON_STREAM_H_
