// Work items and gradients between ranks that are threads, with a model that has one number in each
// range.
#include "runtime/train/asynchronous/exchange.h"

#include <gmock/gmock.h>

#include <csignal>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <thread>

#include "runtime/error.h"
#include "tests/runtime/exec/local_ranks.h"

namespace runtime::train {
namespace {

using exec::LocalRank;
using exec::on_local_ranks;
using testing::Each;
using testing::HasSubstr;

Bytes to_bytes(double value) {
  Bytes bytes(sizeof(value));
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

double to_number(const Bytes& bytes) {
  double value = 0;
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

// The events of the whole job.
struct Record {
  std::mutex mutex;
  std::map<int64_t, int> taken, applied;  // by work item: takers, owners that applied it

  // Whether all owners have applied all work items of the steps up to `step`.
  bool is_applied_up_to(int64_t step, int ranks) {
    for (int64_t item = 0; item < (step + 1) * ranks; ++item) {
      if (applied[item] != ranks) return false;
    }
    return true;
  }
};

// One owner's parameters: a single number, to which gradients are added.
struct Range {
  Record& record;
  double value = 0;
  Bytes apply(const Bytes& gradient) {
    const double item = to_number(gradient);  // the gradient of work item p is p + 1
    value += item;
    const std::lock_guard lock(record.mutex);
    ++record.applied[static_cast<int64_t>(item) - 1];
    return to_bytes(value);
  }
};

WorkExchange::Options options(const LocalRank& r, int64_t staleness, Range& range) {
  return {r.rank,         r.world_size,
          staleness,      0,
          sizeof(double), [&](const Bytes& gradient, double) { return range.apply(gradient); }};
}

ItemGradient gradient(int64_t item, int ranks) {
  return {item, 0.1, 0.5, 3, std::vector<Bytes>(ranks, to_bytes(static_cast<double>(item + 1)))};
}

void barrier(LocalRank& r) {
  double all = 0;
  r.collectives.all_reduce(&all, 1, RT_SUM);
}

// Waits for all answers that are still under way, as between stretches of a run and before its end.
void meet(LocalRank& r, WorkExchange& exchange) {
  exchange.drain();
  barrier(r);
}

struct Case {
  int ranks;
  int64_t staleness;
};

class WorkExchangeTest : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Jobs, WorkExchangeTest,
                         testing::Values(Case{2, 1}, Case{2, 4}, Case{3, 1}, Case{3, 2},
                                         Case{5, 1}),
                         [](const auto& info) {
                           return std::to_string(info.param.ranks) + "ranks" +
                                  std::to_string(info.param.staleness) + "stale";
                         });

// Ranks whose speeds differ much and change, over two stretches of steps.
TEST_P(WorkExchangeTest, EveryItemOnceAndTheBoundHolds) {
  const auto [ranks, staleness] = GetParam();
  constexpr int64_t kHalf = 12, kSteps = 25;
  Record record;
  const auto errors = on_local_ranks(ranks, [&, n = ranks, stale = staleness](LocalRank& r) {
    Range range{record};
    WorkExchange exchange(r.collectives.communicator(1), r.watchdog, options(r, stale, range));
    std::mt19937 random(r.rank);
    for (const int64_t end : {kHalf, kSteps}) {
      exchange.open(end * n);
      while (const auto item = exchange.next_item()) {
        {
          const std::lock_guard lock(record.mutex);
          ++record.taken[*item];
          EXPECT_LT(*item, end * n);
          EXPECT_TRUE(record.is_applied_up_to(*item / n - 1 - stale, n)) << "item " << *item;
        }
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 1000 * (1 + 2 * r.rank)));
        exchange.push(gradient(*item, n));
        for (const Bytes& s : exchange.pull()) EXPECT_GE(to_number(s), *item + 1);
      }
      meet(r, exchange);
      EXPECT_EQ(range.value, static_cast<double>(end * n * (end * n + 1)) / 2);
      barrier(r);  // no rank may send gradients of the next stretch before all ranks have checked
    }
    const WorkProgress progress = exchange.take_progress();
    EXPECT_EQ(progress.items, r.rank == 0 ? kSteps * n : 0);
    EXPECT_EQ(progress.samples, 3 * progress.items);
    EXPECT_EQ(progress.loss, 0.5 * static_cast<double>(progress.items));
    exchange.close();
  });
  EXPECT_THAT(errors, Each(""));
  EXPECT_EQ(record.taken.size(), static_cast<size_t>(kSteps * ranks));
  for (const auto& [item, count] : record.taken) EXPECT_EQ(count, 1) << "item " << item;
}

// A rank that holds back one work item lets the others go ahead exactly as far as the bound allows.
TEST(WorkExchange, GoesAheadAsFarAsTheBoundAllows) {
  constexpr int64_t kStale = 3;
  Record record;
  std::atomic<bool> held = false, go_on = false;
  const auto errors = on_local_ranks(2, [&](LocalRank& r) {
    Range range{record};
    WorkExchange exchange(r.collectives.communicator(1), r.watchdog, options(r, kStale, range));
    exchange.open(40);
    EXPECT_TRUE(r.rank == 1 || watch::becomes_true([&] { return held.load(); }));
    while (const auto item = exchange.next_item()) {
      if (r.rank == 1 && !held.exchange(true)) {
        EXPECT_EQ(*item, 0);
        EXPECT_TRUE(watch::becomes_true([&] { return go_on.load(); }));
      }
      exchange.push(gradient(*item, 2));
      exchange.pull();
      // The other work item of step 0, and steps 1 to 3, are done.
      if (r.rank == 0 && *item == 2 * (kStale + 1) - 1) go_on = true;
      EXPECT_TRUE(*item < 2 * (kStale + 1) || go_on) << "item " << *item;
    }
    meet(r, exchange);
    exchange.close();
  });
  EXPECT_THAT(errors, Each(""));
  EXPECT_EQ(record.applied.size(), 40u);
}

TEST(WorkExchange, StopEndsAllRanks) {
  Record record;
  const auto errors = on_local_ranks(3, [&](LocalRank& r) {
    Range range{record};
    WorkExchange exchange(r.collectives.communicator(1), r.watchdog, options(r, 2, range));
    exchange.open(1'000'000'000);
    while (const auto item = exchange.next_item()) {
      exchange.push(gradient(*item, 3));
      exchange.pull();
      if (r.rank == 2) exchange.stop(SIGTERM);
    }
    meet(r, exchange);
    EXPECT_EQ(exchange.signal(), r.rank == 0 ? SIGTERM : 0);
    exchange.close();
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(WorkExchange, ReleaseEndsAWaitForItems) {
  const auto errors = on_local_ranks(2, [&](LocalRank& r) {
    Record record;
    Range range{record};
    WorkExchange exchange(r.collectives.communicator(1), r.watchdog, options(r, 2, range));
    std::thread asks([&] { EXPECT_EQ(exchange.next_item(), std::nullopt); });
    exchange.release();
    asks.join();
    exchange.close();
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(WorkExchange, AnUpdateThatFailsEndsTheJob) {
  // Rank 1 needs longer to unwind its stack than rank 0 to notice the aborted communicator.
  struct SlowEnd {
    ~SlowEnd() { std::this_thread::sleep_for(4 * watch::Watchdog::kSlice); }
  };
  Record record;
  const auto errors = on_local_ranks(2, [&](LocalRank& r) {
    std::optional<SlowEnd> slow;
    if (r.rank == 1) slow.emplace();
    Range range{record};
    WorkExchange::Options o = options(r, 2, range);
    if (r.rank == 1)
      o.apply = [](const Bytes&, double) -> Bytes { throw DeviceError("no memory"); };
    WorkExchange exchange(r.collectives.communicator(1), r.watchdog, o);
    exchange.open(100);
    while (const auto item = exchange.next_item()) {
      exchange.push(gradient(*item, 2));
      exchange.pull();
    }
  });
  EXPECT_EQ(errors[1], "no memory");
  EXPECT_THAT(errors[0], HasSubstr("rank 1 of 2 ended with: no memory"));
}

}  // namespace
}  // namespace runtime::train
