// Checks results of random calls, full slots, deadlines, sleepers, ranks that leave and ranks that
// disagree.
#include "collectives/shared_memory/host_collectives.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <future>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace collectives::shared_memory {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Operations = std::vector<std::shared_ptr<HostCollectives::Operation>>;

bool poll(HostCollectives& all, const std::shared_ptr<HostCollectives::Operation>& operation) {
  return all.wait(*operation, Deadline::min());
}

Deadline in(milliseconds time) { return steady_clock::now() + time; }
constexpr milliseconds kLong{60'000};

// Ranks as threads of this process; each has mapped the segment for itself.
std::vector<std::unique_ptr<HostCollectives>> ranks_of(int size) {
  std::vector<Segment> segments(static_cast<std::size_t>(size));
  segments[0] = Segment::make(HostCollectives::segment_bytes(size));
  for (std::size_t rank = 1; rank < segments.size(); ++rank)
    segments[rank] = Segment::open(segments[0].card(), HostCollectives::segment_bytes(size));
  std::vector<std::unique_ptr<HostCollectives>> ranks;
  for (int rank = 0; rank < size; ++rank) {
    auto& segment = segments[static_cast<std::size_t>(rank)];
    if (!segment) throw std::runtime_error("the segment cannot be opened");
    ranks.push_back(std::make_unique<HostCollectives>(std::move(segment), rank, size));
  }
  return ranks;
}

template <typename T>
rt_collective call_of(const std::vector<T>& send, std::vector<T>& receive, rt_dtype dtype,
                      int32_t reduction = RT_SUM) {
  rt_collective call{};
  call.kind = RT_ALL_REDUCE;
  call.dtype = dtype;
  call.reduction = reduction;
  call.send = send.data();
  call.receive = receive.data();
  call.count = send.size();
  return call;
}

rt_collective sum(std::vector<float>& data) { return call_of(data, data, RT_FLOAT32); }

// A call of all ranks of one random kind and type, with whole numbers that every type can add.
struct Case {
  Case(std::mt19937& random, int size, uint64_t most) {
    kind = std::array{RT_ALL_REDUCE, RT_REDUCE_SCATTER, RT_ALL_GATHER}[random() % 3];
    count = random() % 3 == 0 ? most - random() % 3 : random() % (most + 1);
    if (kind != RT_ALL_REDUCE) count /= static_cast<uint64_t>(size);
    reduction = static_cast<int32_t>(RT_SUM + random() % 4);
    is_float = random() % 2 == 0;
    in_place = random() % 2 == 0;
    seed = static_cast<int>(random() % 50);
    ranks = size;
  }
  // `rank` sends this number as element i.
  int at(int rank, uint64_t i) const {
    return static_cast<int>((i * 7 + static_cast<uint64_t>(seed)) % 50) + 3 * ranks * (rank % 2);
  }
  // The sum for RT_AVERAGE, whose quotient depends on the type.
  int reduced(uint64_t i) const {
    int sum = 0, least = at(0, i), most = at(0, i);
    for (int rank = 0; rank < ranks; ++rank) {
      sum += at(rank, i);
      least = std::min(least, at(rank, i));
      most = std::max(most, at(rank, i));
    }
    return reduction == RT_MIN ? least : reduction == RT_MAX ? most : sum;
  }
  uint64_t whole() const {
    return kind == RT_ALL_REDUCE ? count : count * static_cast<uint64_t>(ranks);
  }
  int32_t kind;
  uint64_t count;
  int32_t reduction;
  bool is_float, in_place;
  int seed, ranks;
};

// One rank's call of a case, with its own buffers.
template <typename T>
class Call {
 public:
  Call(const Case& c, int rank) : case_(c), rank_(rank) {
    const uint64_t chunk = static_cast<uint64_t>(rank) * c.count;
    const uint64_t sent = c.kind == RT_ALL_GATHER ? c.count : c.whole();
    std::vector<T> values;
    for (uint64_t i = 0; i < sent; ++i) values.push_back(static_cast<T>(c.at(rank, i)));
    result_.resize(c.kind == RT_REDUCE_SCATTER ? c.count : c.whole());
    if (c.in_place && c.kind == RT_ALL_GATHER) {
      std::copy(values.begin(), values.end(), result_.begin() + static_cast<int64_t>(chunk));
    } else if (c.in_place) {
      result_ = values;
    } else {
      data_ = values;
    }
    call_.kind = c.kind;
    call_.dtype = std::is_same_v<T, float> ? RT_FLOAT32 : RT_INT64;
    call_.reduction = c.reduction;
    call_.count = c.count;
    call_.send = !c.in_place ? data_.data() : result_.data();
    call_.receive = result_.data();
    if (c.in_place && c.kind == RT_ALL_GATHER) call_.send = result_.data() + chunk;
    if (c.in_place && c.kind == RT_REDUCE_SCATTER) call_.receive = result_.data() + chunk;
  }
  const rt_collective& collective() const { return call_; }
  // The number of wrong elements.
  uint64_t wrong() const {
    const auto* const received = static_cast<const T*>(call_.receive);
    const bool gathers = case_.kind == RT_ALL_GATHER, scatters = case_.kind == RT_REDUCE_SCATTER;
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < (scatters ? case_.count : case_.whole()); ++i) {
      T expected = 0;
      if (gathers) {
        expected = static_cast<T>(case_.at(static_cast<int>(i / case_.count), i % case_.count));
      } else {
        expected = static_cast<T>(
            case_.reduced(scatters ? static_cast<uint64_t>(rank_) * case_.count + i : i));
        if (case_.reduction == RT_AVERAGE) expected /= static_cast<T>(case_.ranks);
      }
      wrong += received[i] != expected;
    }
    return wrong;
  }

 private:
  const Case case_;
  const int rank_;
  std::vector<T> data_, result_;
  rt_collective call_{};
};

void finish(HostCollectives& all, const std::shared_ptr<HostCollectives::Operation>& operation,
            std::mt19937& random) {
  switch (random() % 4) {
    case 0:
      while (!poll(all, operation)) std::this_thread::yield();
      return;
    case 1:
      all.drive(*operation);
      return;
    case 2:
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
      [[fallthrough]];
    default:
      EXPECT_TRUE(all.wait(*operation, in(kLong)));
  }
}

// Each rank starts some calls ahead and finishes them in its own way, also out of order.
void run_rank(HostCollectives& all, int rank, const std::vector<Case>& cases, unsigned seed) {
  std::mt19937 random(seed);
  using AnyCall = std::variant<Call<float>, Call<int64_t>>;
  std::vector<std::unique_ptr<AnyCall>> calls;
  Operations operations;
  std::size_t finished = 0;
  while (finished < cases.size()) {
    if (calls.size() < cases.size() && (calls.size() == finished || random() % 3 != 0)) {
      const Case& next = cases[calls.size()];
      calls.push_back(
          next.is_float ? std::make_unique<AnyCall>(std::in_place_type<Call<float>>, next, rank)
                        : std::make_unique<AnyCall>(std::in_place_type<Call<int64_t>>, next, rank));
      const rt_collective& call = std::visit(
          [](const auto& c) -> const rt_collective& { return c.collective(); }, *calls.back());
      ASSERT_TRUE(all.takes(call));
      operations.push_back(all.start(call));
      continue;
    }
    finish(all, operations[random() % 2 == 0 ? finished : operations.size() - 1], random);
    finish(all, operations[finished], random);
    EXPECT_EQ(std::visit([](const auto& c) { return c.wrong(); }, *calls[finished]), 0U)
        << "rank " << rank << ", call " << finished;
    ++finished;
  }
}

class HostCollectivesOf : public ::testing::TestWithParam<int> {};

TEST_P(HostCollectivesOf, RandomCallsGiveTheExpectedNumbers) {
  const int size = GetParam();
  for (unsigned seed = 1; seed <= 10; ++seed) {
    auto ranks = ranks_of(size);
    std::mt19937 random(seed);
    // Small vectors, those that every rank just reads whole, and some that pass the slots twice.
    const uint64_t whole = std::min<uint64_t>(512 << 10, (1 << 20) / (size - 1)) / 8;
    std::vector<Case> cases;
    for (int i = 0; i < 25; ++i)
      cases.emplace_back(random, size, i % 3 == 0 ? whole : i % 5 == 0 ? 150'000 : 1000);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        run_rank(*ranks[static_cast<std::size_t>(rank)], rank, cases,
                 seed * 100 + static_cast<unsigned>(rank));
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, HostCollectivesOf, ::testing::Values(2, 3, 5));

TEST(HostCollectivesTest, TakeWhatTwoRanksOrMoreCompute) {
  std::vector<float> data(10);
  rt_collective call = sum(data);
  EXPECT_FALSE(ranks_of(1)[0]->takes(call));
  const auto two = ranks_of(2);
  EXPECT_TRUE(two[0]->takes(call));
  call.kind = RT_ALL_TO_ALL;
  EXPECT_FALSE(two[0]->takes(call));
}

// Each rank adds its part of a large vector, so the others need it until it has done so.
TEST(HostCollectivesTest, ALargeCallNeedsARankUntilItHasAddedItsPart) {
  const auto ranks = ranks_of(2);
  std::vector<float> a(200'000, 1), b(200'000, 2);
  const auto first = ranks[0]->start(sum(a));
  EXPECT_FALSE(ranks[0]->is_sent(*first));
  const auto second = ranks[1]->start(sum(b));
  std::thread background([&] { ranks[0]->drive(*first); });
  EXPECT_TRUE(ranks[1]->wait(*second, in(kLong)));
  background.join();
  EXPECT_TRUE(ranks[0]->is_sent(*first));
  EXPECT_EQ(a, std::vector<float>(200'000, 3));
  EXPECT_EQ(a, b);
}

TEST(HostCollectivesTest, RanksThatCallOtherCollectivesAreTold) {
  const auto ranks = ranks_of(2);
  std::vector<float> a(10, 1), b(20, 2);
  rt_collective gather = call_of(a, b, RT_FLOAT32);
  gather.kind = RT_ALL_GATHER;
  const auto first = ranks[0]->start(gather);
  ranks[1]->start(sum(b));
  try {
    poll(*ranks[0], first);
    FAIL() << "no error";
  } catch (const Disagreement& e) {
    EXPECT_THAT(e.what(), ::testing::AllOf(::testing::HasSubstr("an all-gather of 20 elements"),
                                           ::testing::HasSubstr("an all-reduce of 20 elements")));
  }
}

// The other ranks do not need a rank whose data are there.
TEST(HostCollectivesTest, ARankThatHasSentItsPartNeedNotWait) {
  const auto ranks = ranks_of(2);
  std::vector<float> a(1000, 1), b(1000, 2);
  const auto first = ranks[0]->start(sum(a));
  EXPECT_TRUE(ranks[0]->is_sent(*first));
  EXPECT_FALSE(poll(*ranks[0], first));
  const auto second = ranks[1]->start(sum(b));
  EXPECT_TRUE(ranks[1]->wait(*second, in(kLong)));
  EXPECT_EQ(b, std::vector<float>(1000, 3));
  EXPECT_TRUE(poll(*ranks[0], first));
  EXPECT_EQ(a, b);
}

// Four chunks fit into the slots of a rank; the rest is copied once the others have read them.
TEST(HostCollectivesTest, ACallWithoutFreeSlotsIsSentLater) {
  const auto ranks = ranks_of(2);
  std::vector<std::vector<float>> a(5, std::vector<float>(10, 1)), b(5, std::vector<float>(10, 2));
  Operations first, second;
  for (auto& data : a) first.push_back(ranks[0]->start(sum(data)));
  for (auto& data : b) second.push_back(ranks[1]->start(sum(data)));
  EXPECT_TRUE(ranks[0]->is_sent(*first[3]));
  EXPECT_FALSE(ranks[0]->is_sent(*first[4]));
  EXPECT_FALSE(poll(*ranks[0], first[4]));
  EXPECT_TRUE(poll(*ranks[0], first[3]));
  std::thread background([&] { ranks[0]->drive(*first[4]); });
  EXPECT_TRUE(ranks[1]->wait(*second[4], in(kLong)));
  background.join();
  EXPECT_THAT(a, ::testing::Each(std::vector<float>(10, 3)));
  EXPECT_EQ(a, b);
}

TEST(HostCollectivesTest, AWaitEndsAtItsDeadlineAndTheCallGoesOn) {
  const auto ranks = ranks_of(2);
  std::vector<float> a(10, 1), b(10, 2);
  const auto first = ranks[0]->start(sum(a));
  EXPECT_FALSE(ranks[0]->wait(*first, in(milliseconds(20))));
  const auto second = ranks[1]->start(sum(b));
  EXPECT_TRUE(ranks[0]->wait(*first, in(kLong)));
  EXPECT_TRUE(ranks[1]->wait(*second, in(kLong)));
  EXPECT_EQ(a, std::vector<float>(10, 3));
}

TEST(HostCollectivesTest, ASleepingRankIsWokenByTheLastOne) {
  const auto ranks = ranks_of(3);
  std::vector<std::vector<float>> data(3, std::vector<float>(100, 1));
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      std::this_thread::sleep_for(milliseconds(30 * rank));
      EXPECT_TRUE(ranks[rank]->wait(*ranks[rank]->start(sum(data[rank])), in(kLong)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(data, ::testing::Each(std::vector<float>(100, 3)));
}

TEST(HostCollectivesTest, RanksThatDisagreeAreTold) {
  const auto ranks = ranks_of(2);
  std::vector<float> a(10, 1), b(11, 2);
  const auto first = ranks[0]->start(sum(a));
  const auto second = ranks[1]->start(sum(b));
  try {
    poll(*ranks[0], first);
    FAIL() << "no error";
  } catch (const Disagreement& e) {
    EXPECT_EQ(e.peer, 1);
    EXPECT_THAT(e.what(), ::testing::AllOf(::testing::HasSubstr("11 elements"),
                                           ::testing::HasSubstr("10 elements")));
  }
  EXPECT_THROW(poll(*ranks[1], second), Disagreement);
  EXPECT_EQ(a, std::vector<float>(10, 1));
}

TEST(HostCollectivesTest, ARankThatHasLeftIsMissedOnlyWhereItHasNotCome) {
  const auto ranks = ranks_of(2);
  std::vector<float> a(10, 1), b(10, 2), c(10, 1);
  const auto first = ranks[0]->start(sum(a));
  const auto theirs = ranks[1]->start(sum(b));
  ranks[0]->leave(1);
  EXPECT_TRUE(poll(*ranks[0], first));
  EXPECT_EQ(a, std::vector<float>(10, 3));
  const auto second = ranks[0]->start(sum(c));
  EXPECT_THROW(ranks[0]->wait(*second, in(kLong)), Missing);
}

TEST(HostCollectivesTest, LeavingWakesARankThatSleeps) {
  const auto ranks = ranks_of(2);
  std::vector<float> a(10, 1);
  const auto operation = ranks[0]->start(sum(a));
  std::thread later([&] {
    std::this_thread::sleep_for(milliseconds(30));
    ranks[0]->leave(1);
  });
  EXPECT_THROW(ranks[0]->wait(*operation, in(kLong)), Missing);
  later.join();
}

TEST(HostCollectivesTest, AnInterruptWakesAllAndEndsEverything) {
  const auto ranks = ranks_of(2);
  std::vector<float> a(10, 1);
  const auto operation = ranks[0]->start(sum(a));
  auto waits = std::async(std::launch::async, [&] { ranks[0]->wait(*operation, in(kLong)); });
  auto drives = std::async(std::launch::async, [&] { ranks[0]->drive(*operation); });
  std::this_thread::sleep_for(milliseconds(30));
  ranks[0]->interrupt();
  EXPECT_THROW(waits.get(), Interrupted);
  EXPECT_THROW(drives.get(), Interrupted);
  EXPECT_THROW(ranks[0]->start(sum(a)), Interrupted);
  EXPECT_THROW(poll(*ranks[0], operation), Interrupted);
}

TEST(HostCollectivesTest, EmptyVectorsAreComparedToo) {
  const auto ranks = ranks_of(2);
  std::vector<float> none, some(10, 1);
  const auto first = ranks[0]->start(sum(none));
  const auto second = ranks[1]->start(sum(none));
  EXPECT_TRUE(poll(*ranks[0], first));
  EXPECT_TRUE(poll(*ranks[1], second));
  const auto third = ranks[0]->start(sum(none));
  ranks[1]->start(sum(some));
  EXPECT_THROW(poll(*ranks[0], third), Disagreement);
}

// A rank that has copied all of its vectors may wait for something else and not read for long.
// Those that others have not copied are copied by their threads in the background, or by this
// rank's.
TEST(HostCollectivesTest, RanksInTheBackgroundNeedNoRankThatWaitsForNothing) {
  for (int first = 0; first < 2; ++first) {
    const auto ranks = ranks_of(2);
    std::vector<std::vector<float>> data(12, std::vector<float>(10, 1));
    std::vector<std::thread> background;
    for (const int rank : {first, 1 - first}) {
      HostCollectives& all = *ranks[static_cast<std::size_t>(rank)];
      for (std::size_t i = 0; i < 6; ++i) {
        const auto operation = all.start(sum(data[static_cast<std::size_t>(rank) * 6 + i]));
        if (!all.is_sent(*operation)) background.emplace_back([=, &all] { all.drive(*operation); });
      }
    }
    for (std::thread& thread : background) thread.join();
    SUCCEED();
  }
}

}  // namespace
}  // namespace collectives::shared_memory
