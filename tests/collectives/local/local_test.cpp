// Behaviour that the conformance checks do not cover: joining, disagreement, ranks that leave, many
// calls of many kinds.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <random>

#include "tests/collectives/local/ranks.h"

namespace collectives::local::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;

rt_collective all_reduce(const std::vector<float>& send, std::vector<float>& receive,
                         uint64_t count) {
  return host::make_collective(RT_ALL_REDUCE, RT_FLOAT32, send.data(), receive.data(), count,
                               RT_SUM);
}

rt_collective barrier() { return host::make_collective(RT_BARRIER, 0, nullptr, nullptr, 0); }

TEST(LocalJoin, MissingRanksAreNamed) {
  const auto plugin = host::Plugin::load(LOCAL_PLUGIN, {});
  const auto error = error_of([&] { join(plugin, 1, 4, 20ms); });
  EXPECT_EQ(error.code(), RT_ERROR_TIMEOUT);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 1 of 4"), HasSubstr("in time: 0, 2, 3;")));
}

TEST(LocalJoin, ARankMayTryAgain) {
  const auto plugin = host::Plugin::load(LOCAL_PLUGIN, {});
  error_of([&] { join(plugin, 0, 2, 5ms); });
  std::thread other([&] { join(plugin, 1, 2); });
  EXPECT_NE(join(plugin, 0, 2), nullptr);
  other.join();
}

// Two threads join with sizes or ranks that exclude each other. The second is refused and reports
// it; then it joins as all the ranks that the first one waits for, so that the first returns.
std::string refusal(std::pair<int32_t, int32_t> a, std::pair<int32_t, int32_t> b) {
  const auto plugin = host::Plugin::load(LOCAL_PLUGIN, {});
  std::string words;
  const auto enter = [&](std::pair<int32_t, int32_t> self, std::pair<int32_t, int32_t> other) {
    try {
      join(plugin, self.first, self.second);
    } catch (const host::Error& error) {
      EXPECT_EQ(error.code(), RT_ERROR_INVALID_ARGUMENT);
      words = error.what();
      std::vector<std::thread> threads;
      for (int32_t rank = 0; rank < other.second; ++rank) {
        if (rank != other.first)
          threads.emplace_back([&, rank] { join(plugin, rank, other.second); });
      }
      for (std::thread& thread : threads) thread.join();
    }
  };
  std::thread first([&] { enter(a, b); });
  std::thread second([&] { enter(b, a); });
  first.join();
  second.join();
  return words;
}

TEST(LocalJoin, RanksThatDisagreeAboutTheJobAreRefused) {
  EXPECT_THAT(refusal({0, 3}, {0, 3}), HasSubstr("has a rank 0 already"));
  EXPECT_THAT(refusal({0, 3}, {1, 2}), AnyOf(HasSubstr("3 ranks for others, 2 for rank 1"),
                                             HasSubstr("2 ranks for others, 3 for rank 0")));
}

TEST(LocalJoin, RanksOutOfRangeAreRefused) {
  const auto plugin = host::Plugin::load(LOCAL_PLUGIN, {});
  for (const auto& [rank, size] : {std::pair(-1, 2), {2, 2}, {0, 0}, {0, 100000}}) {
    EXPECT_EQ(error_of([&] { join(plugin, rank, size); }).code(), RT_ERROR_INVALID_ARGUMENT);
  }
}

// A call of rank 1 that differs from an all-reduce (sum) of 4 float32.
struct Difference {
  const char* name;
  std::function<void(rt_collective&)> make;
  const char* words;
};
void PrintTo(const Difference& difference, std::ostream* out) { *out << difference.name; }

class LocalDisagreement : public ::testing::TestWithParam<Difference> {};

TEST_P(LocalDisagreement, FailsOnEveryRankWithBothSides) {
  on_ranks(3, [](const CommunicatorPtr& communicator, int32_t rank) {
    std::vector<float> buffer(16, 1.0f), sum(16);
    rt_collective call = all_reduce(buffer, sum, 4);
    if (rank == 1) GetParam().make(call);
    const auto error = error_of([&] { communicator->enqueue(call).wait(kLong); });
    EXPECT_EQ(error.code(), RT_ERROR_INVALID_ARGUMENT);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("all_reduce of 4 float32, sum"), HasSubstr("rank 1"),
                                    HasSubstr(GetParam().words)));
    communicator->enqueue(all_reduce(buffer, sum, 4)).wait(kLong);  // the ranks are in step again
    EXPECT_EQ(sum[0], 3.0f);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Of, LocalDisagreement,
    ::testing::Values(
        Difference{"kind", [](auto& c) { c.kind = RT_REDUCE_SCATTER; }, "calls reduce_scatter"},
        Difference{"count", [](auto& c) { c.count = 3; }, "all_reduce of 3 float32"},
        Difference{"dtype", [](auto& c) { c.dtype = RT_INT32; }, "of 4 int32"},
        Difference{"reduction", [](auto& c) { c.reduction = RT_MAX; }, "float32, max"},
        Difference{"barrier", [](auto& c) { c.kind = RT_BARRIER; }, "calls barrier"}),
    [](const auto& info) { return info.param.name; });

TEST(LocalDisagreement, RootsDiffer) {
  on_ranks(2, [](const CommunicatorPtr& communicator, int32_t rank) {
    std::vector<float> buffer(16);
    rt_collective call = all_reduce(buffer, buffer, 4);
    call.kind = RT_BROADCAST;
    call.peer = rank;
    EXPECT_THAT(error_of([&] { communicator->enqueue(call).wait(kLong); }).what(),
                AllOf(HasSubstr("from 0"), HasSubstr("from 1")));
  });
}

TEST(LocalDisagreement, SendAndReceiveDiffer) {
  on_ranks(2, [](const CommunicatorPtr& communicator, int32_t rank) {
    std::vector<float> buffer(16);
    rt_collective call = all_reduce(buffer, buffer, rank == 0 ? 4 : 5);
    call.kind = rank == 0 ? RT_SEND : RT_RECEIVE;
    call.peer = 1 - rank;
    EXPECT_THAT(
        error_of([&] { communicator->enqueue(call).wait(kLong); }).what(),
        AllOf(HasSubstr("send of 4 float32 to 1"), HasSubstr("receive of 5 float32 from 0")));
  });
}

TEST(LocalWait, SaysWhoIsMissing) {
  on_ranks(3, [](const CommunicatorPtr& communicator, int32_t rank) {
    communicator->enqueue(barrier()).wait(kLong);
    host::Work late;
    if (rank == 0) {
      late = communicator->enqueue(barrier());
      const auto error = error_of([&] { late.wait(10ms); });
      EXPECT_EQ(error.code(), RT_ERROR_TIMEOUT);
      EXPECT_THAT(error.what(), HasSubstr("have not come to it in time: 1, 2"));
    }
    // The message is point-to-point, which is independent of barriers, so that the others arrive
    // after the time-out.
    std::vector<float> token(1);
    for (int32_t peer : {1, 2}) {
      if (rank != 0 && rank != peer) continue;
      rt_collective call = all_reduce(token, token, 1);
      call.kind = rank == 0 ? RT_SEND : RT_RECEIVE;
      call.peer = rank == 0 ? peer : 0;
      communicator->enqueue(call).wait(kLong);
    }
    if (rank != 0) late = communicator->enqueue(barrier());
    late.wait(kLong);
  });
}

TEST(LocalLeave, ThoseWhoWaitForARankThatLeftFailAtOnce) {
  on_ranks(3, [](CommunicatorPtr communicator, int32_t rank) {
    if (rank == 2) return;
    const auto error = error_of([&] { communicator->enqueue(barrier()).wait(kLong); });
    EXPECT_EQ(error.code(), RT_ERROR_COMMUNICATION);
    EXPECT_THAT(error.what(), HasSubstr("rank 2 has left"));
    EXPECT_TRUE(communicator->asynchronous_error().has_value());
  });
}

// Rank 0 gives up and frees its buffer. Rank 1 arrives later and must not touch that buffer.
TEST(LocalLeave, NobodyTouchesTheBuffersOfARankThatLeft) {
  const auto plugin = host::Plugin::load(LOCAL_PLUGIN, {});
  std::atomic<bool> left = false;
  std::thread first([&] {
    {
      auto communicator = join(plugin, 0, 2);
      std::vector<float> buffer(100000);
      EXPECT_EQ(error_of([&] {
                  communicator->enqueue(all_reduce(buffer, buffer, buffer.size())).wait(1ms);
                }).code(),
                RT_ERROR_TIMEOUT);
    }
    left = true;
  });
  auto communicator = join(plugin, 1, 2);
  while (!left) std::this_thread::sleep_for(1ms);
  std::vector<float> buffer(100000, 1.0f);
  const auto error = error_of(
      [&] { communicator->enqueue(all_reduce(buffer, buffer, buffer.size())).wait(kLong); });
  EXPECT_EQ(error.code(), RT_ERROR_COMMUNICATION);
  EXPECT_THAT(error.what(), HasSubstr("rank 0 has left"));
  first.join();
}

// Work is aborted while it runs, many times; buffers are freed as soon as the abort is known.
TEST(LocalAbort, StopsWorkThatIsUnderWay) {
  for (int round = 0; round < 20; ++round) {
    on_ranks(2, [&](const CommunicatorPtr& communicator, int32_t rank) {
      try {
        for (int i = 0; i < 1000; ++i) {
          std::vector<float> buffer(1 << 18, 1.0f);
          host::Work work = communicator->enqueue(all_reduce(buffer, buffer, buffer.size()));
          if (rank == 0 && i == round % 5) communicator->abort();
          work.wait(kLong);
        }
        ADD_FAILURE() << "rank " << rank << " was not stopped";
      } catch (const host::Error& error) {
        EXPECT_TRUE(error.code() == RT_ERROR_ABORTED || error.code() == RT_ERROR_COMMUNICATION)
            << error.what();
      }
    });
  }
}

TEST(LocalWork, FreedWithoutWaitingIsCarriedOutAllTheSame) {
  on_ranks(2, [](const CommunicatorPtr& communicator, int32_t rank) {
    std::vector<float> buffer(1 << 20, static_cast<float>(rank + 1));
    { communicator->enqueue(all_reduce(buffer, buffer, buffer.size())); }
    communicator->enqueue(barrier()).wait(kLong);  // both ranks have freed their buffers
    communicator->enqueue(barrier()).wait(kLong);
    EXPECT_THAT(buffer, Each(3.0f));
  });
}

// Sums of the same random numbers, ten times, with any division of the work among the threads.
TEST(LocalResult, HasTheSameBitsInEveryRun) {
  std::vector<float> sums[3];
  for (int run = 0; run < 10; ++run) {
    on_ranks(3, [&](const CommunicatorPtr& communicator, int32_t rank) {
      std::mt19937 random(static_cast<unsigned>(rank));
      std::vector<float> values(100003), sum(values.size());
      for (float& value : values) value = std::uniform_real_distribution<float>(-1, 1)(random);
      communicator->enqueue(all_reduce(values, sum, sum.size())).wait(kLong);
      std::vector<float>& first = sums[rank];
      if (first.empty()) first = sum;
      EXPECT_EQ(std::memcmp(first.data(), sum.data(), sum.size() * sizeof(float)), 0);
    });
  }
  EXPECT_EQ(sums[0], sums[1]);
  EXPECT_EQ(sums[0], sums[2]);
}

// Element i of the send buffer of a rank in call `number`: an integer, so that sums are exact.
float element(uint64_t number, int32_t rank, uint64_t i) {
  return static_cast<float>((number * 31 + static_cast<uint64_t>(rank) * 7 + i * 3) % 101);
}

struct Pending {
  uint64_t number, count;
  int32_t kind, peer;
  std::vector<float> send, receive;
  host::Work work;
};

// The sum over ranks, or the element that one rank sent.
float expected(const Pending& p, int32_t rank, int32_t size, uint64_t i) {
  const uint64_t part = static_cast<uint64_t>(rank) * p.count;
  if (p.kind == RT_BROADCAST || p.kind == RT_RECEIVE) return element(p.number, p.peer, i);
  if (p.kind == RT_ALL_GATHER) {
    return element(p.number, static_cast<int32_t>(i / p.count), i % p.count);
  }
  if (p.kind == RT_ALL_TO_ALL) {
    return element(p.number, static_cast<int32_t>(i / p.count), part + i % p.count);
  }
  float sum = 0;
  for (int32_t r = 0; r < size; ++r) {
    sum += element(p.number, r, p.kind == RT_REDUCE_SCATTER ? part + i : i);
  }
  return sum;
}

void finish(Pending& pending, int32_t rank, int32_t size, std::mt19937& own) {
  while (own() % 4 == 0 && !pending.work.poll()) std::this_thread::yield();
  pending.work.wait(kLong);
  for (uint64_t i = 0; i < pending.receive.size(); ++i) {
    ASSERT_EQ(pending.receive[i], expected(pending, rank, size, i))
        << "call " << pending.number << " of kind " << pending.kind << " at " << i;
  }
}

// 1000 collectives of random kind and size on 4 ranks, with up to 16 in flight. Each rank waits for
// them or polls them in an order of its own.
TEST(LocalStress, RandomCollectives) {
  constexpr int32_t kSize = 4;
  on_ranks(kSize, [](const CommunicatorPtr& communicator, int32_t rank) {
    std::mt19937 shared(7), own(static_cast<unsigned>(100 + rank));
    std::vector<std::unique_ptr<Pending>> in_flight;
    const auto finish_one = [&] {
      std::swap(in_flight[own() % in_flight.size()], in_flight.back());
      finish(*in_flight.back(), rank, kSize, own);
      in_flight.pop_back();
    };
    for (uint64_t number = 0; number < 1000; ++number) {
      const auto kind = static_cast<int32_t>(RT_ALL_REDUCE + shared() % RT_BARRIER);
      const uint64_t count = shared() % 20 == 0 ? shared() % 200000 : shared() % 3000;
      const auto peer = static_cast<int32_t>(shared() % kSize);
      auto p = std::make_unique<Pending>(
          Pending{number, kind == RT_BARRIER ? 0 : count, kind, peer, {}, {}, {}});
      if (kind == RT_SEND || kind == RT_RECEIVE) {  // `peer` sends to the next rank
        const int32_t to = (peer + 1) % kSize;
        if (rank != peer && rank != to) continue;
        p->kind = rank == peer ? RT_SEND : RT_RECEIVE;
        p->peer = rank == peer ? to : peer;
      }
      const bool many_sent = kind == RT_REDUCE_SCATTER || kind == RT_ALL_TO_ALL;
      const bool many_received = kind == RT_ALL_GATHER || kind == RT_ALL_TO_ALL;
      p->send.resize(p->count * (many_sent ? kSize : 1));
      if (p->kind != RT_SEND && !(kind == RT_REDUCE && rank != peer)) {
        p->receive.resize(p->count * (many_received ? kSize : 1));
      }
      for (uint64_t i = 0; i < p->send.size(); ++i) p->send[i] = element(number, rank, i);
      rt_collective call = all_reduce(p->send, p->receive, p->count);
      call.kind = p->kind;
      call.peer = p->peer;
      p->work = communicator->enqueue(call);
      in_flight.push_back(std::move(p));
      if (in_flight.size() > 16 || own() % 3 == 0) finish_one();
    }
    while (!in_flight.empty()) finish_one();
  });
}

}  // namespace
}  // namespace collectives::local::testing
