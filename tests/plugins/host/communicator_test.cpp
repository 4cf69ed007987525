// Tests the communicator handles with the fake plugin, whose ranks are threads.
#include "plugins/host/communicator.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

#include "tests/plugins/host/support.h"

namespace plugins::host::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(HostError, KnowsWhatIsOfCommunication) {
  for (const rt_status code : {RT_ERROR_COMMUNICATION, RT_ERROR_TIMEOUT, RT_ERROR_ABORTED})
    EXPECT_TRUE(Error(code, "").is_of_communication()) << status_name(code);
  for (const rt_status code : {RT_ERROR_INTERNAL, RT_ERROR_OUT_OF_MEMORY, RT_ERROR_UNSUPPORTED})
    EXPECT_FALSE(Error(code, "").is_of_communication()) << status_name(code);
}

// A key-value store in memory, in place of that of runtime/launch.
class Store {
 public:
  HostServices services() {
    HostServices services;
    services.kv_set = [this](const std::string& key, const std::string& value) {
      const std::lock_guard lock(mutex_);
      values_[key] = value;
      changed_.notify_all();
    };
    services.kv_get = [this](const std::string& key, std::chrono::nanoseconds timeout) {
      std::unique_lock lock(mutex_);
      if (!changed_.wait_for(lock, timeout, [&] { return values_.count(key) > 0; })) {
        throw Error(RT_ERROR_TIMEOUT, "key '" + key + "' was not set in time");
      }
      return values_[key];
    };
    return services;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

constexpr auto kLong = 60s;  // reached only by a test that fails

std::string test_name() { return ::testing::UnitTest::GetInstance()->current_test_info()->name(); }

std::shared_ptr<Communicator> join(Store& store, int32_t rank, int32_t size,
                                   std::chrono::nanoseconds timeout = kLong) {
  // Each rank loads its own instance, as ranks in processes of their own would.
  auto plugin = Plugin::load(fixture("fake_communicator"), store.services());
  CommunicatorOptions options;
  options.rank = rank;
  options.world_size = size;
  options.prefix = test_name();
  options.timeout = timeout;
  return Communicator::create(std::move(plugin), options);
}

using RankBody = std::function<void(std::shared_ptr<Communicator>, int32_t rank)>;

// Runs `body` on `size` ranks. An exception of one rank aborts the others and fails the test.
void on_ranks(int32_t size, const RankBody& body) {
  Store store;
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      std::shared_ptr<Communicator> communicator;
      try {
        communicator = join(store, rank, size);
        body(communicator, rank);
      } catch (const std::exception& e) {
        ADD_FAILURE() << "rank " << rank << ": " << e.what();
        if (communicator) communicator->abort();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

template <typename T>
rt_dtype dtype_of() {
  if constexpr (std::is_same_v<T, float>) return RT_FLOAT32;
  if constexpr (std::is_same_v<T, double>) return RT_FLOAT64;
  return RT_INT32;
}

template <typename T>
void run(Communicator& communicator, int32_t kind, const std::vector<T>& send,
         std::vector<T>& receive, uint64_t count, int32_t reduction = 0, int32_t peer = -1) {
  rt_collective call =
      make_collective(kind, dtype_of<T>(), send.data(), receive.data(), count, reduction);
  call.peer = peer;
  communicator.enqueue(call).wait(kLong);
}

template <typename T>
class Collectives : public ::testing::Test {};
using ElementTypes = ::testing::Types<float, double, int32_t>;
TYPED_TEST_SUITE(Collectives, ElementTypes);

// Returns value(rank, i) = 10 rank + i, which is exact in every type.
template <typename T>
std::vector<T> values(int32_t rank, std::size_t count) {
  std::vector<T> v(count);
  std::iota(v.begin(), v.end(), static_cast<T>(10 * rank));
  return v;
}

TYPED_TEST(Collectives, ReduceAsTheHeaderSays) {
  for (const int32_t size : {1, 2, 3}) {
    on_ranks(size, [size](auto communicator, int32_t rank) {
      const auto part = static_cast<std::size_t>(rank);
      const TypeParam ranks_sum = static_cast<TypeParam>(10 * size * (size - 1) / 2);
      const TypeParam n = static_cast<TypeParam>(size);
      std::vector<TypeParam> two(2);
      run(*communicator, RT_ALL_REDUCE, values<TypeParam>(rank, 2), two, 2, RT_SUM);
      EXPECT_THAT(two, ElementsAre(ranks_sum, ranks_sum + n));
      run(*communicator, RT_ALL_REDUCE, values<TypeParam>(rank, 2), two, 2, RT_AVERAGE);
      EXPECT_THAT(two, ElementsAre(ranks_sum / n, ranks_sum / n + 1));
      run(*communicator, RT_ALL_REDUCE, values<TypeParam>(rank, 2), two, 2, RT_MIN);
      EXPECT_THAT(two, ElementsAre(0, 1));
      run(*communicator, RT_ALL_REDUCE, values<TypeParam>(rank, 2), two, 2, RT_MAX);
      EXPECT_THAT(two, ElementsAre(10 * (size - 1), 10 * (size - 1) + 1));
      std::vector<TypeParam> one(1);
      run(*communicator, RT_REDUCE_SCATTER, values<TypeParam>(rank, static_cast<std::size_t>(size)),
          one, 1, RT_SUM);
      EXPECT_EQ(one[0], ranks_sum + n * static_cast<TypeParam>(part));
      std::vector<TypeParam> rooted(2, -1);
      run(*communicator, RT_REDUCE, values<TypeParam>(rank, 2), rooted, 2, RT_SUM, size - 1);
      if (rank == size - 1) {
        EXPECT_THAT(rooted, ElementsAre(ranks_sum, ranks_sum + n));
      } else {
        EXPECT_THAT(rooted, ElementsAre(-1, -1));
      }
    });
  }
}

TYPED_TEST(Collectives, MoveAsTheHeaderSays) {
  for (const int32_t size : {1, 2, 3}) {
    on_ranks(size, [size](auto communicator, int32_t rank) {
      const auto n = static_cast<std::size_t>(size);
      std::vector<TypeParam> all(2 * n);
      run(*communicator, RT_ALL_GATHER, values<TypeParam>(rank, 2), all, 2);
      for (int32_t r = 0; r < size; ++r) {
        EXPECT_EQ(all[2 * static_cast<std::size_t>(r) + 1], static_cast<TypeParam>(10 * r + 1));
      }
      run(*communicator, RT_ALL_TO_ALL, values<TypeParam>(rank, 2 * n), all, 2);
      for (int32_t r = 0; r < size; ++r) {
        EXPECT_EQ(all[2 * static_cast<std::size_t>(r)], static_cast<TypeParam>(10 * r + 2 * rank));
      }
      std::vector<TypeParam> two(2);
      run(*communicator, RT_BROADCAST, values<TypeParam>(rank, 2), two, 2, 0, size - 1);
      EXPECT_THAT(two, ElementsAre(10 * (size - 1), 10 * (size - 1) + 1));
      run(*communicator, RT_BARRIER, two, two, 0);
    });
  }
}

TYPED_TEST(Collectives, SendAndReceiveAroundTheRing) {
  for (const int32_t size : {2, 3}) {
    on_ranks(size, [size](auto communicator, int32_t rank) {
      const std::vector<TypeParam> send = values<TypeParam>(rank, 3);
      std::vector<TypeParam> receive(3);
      rt_collective to_next =
          make_collective(RT_SEND, dtype_of<TypeParam>(), send.data(), nullptr, 3);
      to_next.peer = (rank + 1) % size;
      rt_collective from_last =
          make_collective(RT_RECEIVE, dtype_of<TypeParam>(), nullptr, receive.data(), 3);
      from_last.peer = (rank + size - 1) % size;
      CommunicatorGroup group(communicator);
      Work sending = communicator->enqueue(to_next);
      Work receiving = communicator->enqueue(from_last);
      group.end();
      sending.wait(kLong);
      receiving.wait(kLong);
      EXPECT_EQ(receive, values<TypeParam>((rank + size - 1) % size, 3));
    });
  }
}

TEST(Communicator, ReducesInPlace) {
  on_ranks(3, [](auto communicator, int32_t rank) {
    std::vector<float> buffer = {static_cast<float>(rank), 1.0f};
    run(*communicator, RT_ALL_REDUCE, buffer, buffer, 2, RT_SUM);
    EXPECT_THAT(buffer, ElementsAre(3.0f, 3.0f));
  });
}

TEST(Communicator, SplitsByColourAndOrdersByKey) {
  on_ranks(3, [](auto communicator, int32_t rank) {
    // Ranks 0 and 2 form a group in reverse order; rank 1 joins none.
    const auto part = communicator->split(rank == 1 ? -1 : 0, -rank, kLong);
    EXPECT_EQ(part == nullptr, rank == 1);
    if (part) {
      std::vector<int32_t> all(2);
      run(*part, RT_ALL_GATHER, std::vector<int32_t>{rank}, all, 1);
      EXPECT_THAT(all, ElementsAre(2, 0));
    }
    std::vector<int32_t> sum(1);
    run(*communicator, RT_ALL_REDUCE, std::vector<int32_t>{1}, sum, 1,
        RT_SUM);  // the parent still works
    EXPECT_EQ(sum[0], 3);
  });
}

TEST(Communicator, WorkIsAsynchronousAndTimesOutButGoesOn) {
  std::atomic<bool> first_waited{false};
  on_ranks(2, [&](auto communicator, int32_t rank) {
    const std::vector<double> send = {1.0};
    std::vector<double> receive(1);
    if (rank == 1) {
      while (!first_waited) std::this_thread::yield();
    }
    Work work = communicator->enqueue(
        make_collective(RT_ALL_REDUCE, RT_FLOAT64, send.data(), receive.data(), 1, RT_SUM));
    if (rank == 0) {
      EXPECT_FALSE(work.poll());
      const Error error = error_of([&] { work.wait(1ms); });
      EXPECT_EQ(error.code(), RT_ERROR_TIMEOUT);
      EXPECT_THAT(error.what(), HasSubstr("fake: wait for a collective"));
      first_waited = true;
    }
    work.wait(kLong);
    EXPECT_TRUE(work.poll());
    EXPECT_EQ(receive[0], 2.0);
  });
}

TEST(Communicator, AbortWakesAWaiterAndIsFinal) {
  on_ranks(2, [](auto communicator, int32_t rank) {
    ASSERT_NE(communicator_properties(communicator->plugin()).flags & RT_COMM_ABORT_WAKES, 0u);
    if (rank == 1) {
      communicator->abort();
      return;
    }
    std::vector<float> buffer(1);
    const Error error =
        error_of([&] { run(*communicator, RT_ALL_REDUCE, buffer, buffer, 1, RT_SUM); });
    EXPECT_EQ(error.code(), RT_ERROR_ABORTED);
    ASSERT_TRUE(communicator->asynchronous_error().has_value());
    EXPECT_EQ(communicator->asynchronous_error()->code(), RT_ERROR_ABORTED);
    EXPECT_EQ(error_of([&] { run(*communicator, RT_BARRIER, buffer, buffer, 0); }).code(),
              RT_ERROR_ABORTED);
  });
}

TEST(Communicator, CallsThatDifferFailOnBothSides) {
  on_ranks(2, [](auto communicator, int32_t rank) {
    std::vector<float> buffer(4);
    const Error error = error_of(
        [&] { run(*communicator, RT_ALL_REDUCE, buffer, buffer, rank == 0 ? 3u : 4u, RT_SUM); });
    EXPECT_THAT(error.what(), AllOf(HasSubstr("3 elements"), HasSubstr("4 elements")));
  });
}

TEST(Communicator, ARankThatDoesNotComeIsNamed) {
  Store store;
  const Error error = error_of([&] { join(store, 0, 3, 20ms); });
  EXPECT_EQ(error.code(), RT_ERROR_TIMEOUT);
  EXPECT_THAT(error.what(),
              AllOf(HasSubstr("rank 0 of 3 joins"), HasSubstr("did not join in time: 1, 2")));
}

TEST(Communicator, AnUnfinishedGroupIsEndedByItsDestructor) {
  on_ranks(1, [](auto communicator, int32_t) {
    { CommunicatorGroup group(communicator); }
    CommunicatorGroup group(communicator);
    group.end();
    EXPECT_THAT(error_of([&] { group.end(); }).what(), HasSubstr("group_end without group_begin"));
  });
}

TEST(Communicator, ListsItsCapabilities) {
  const auto rows = list_capabilities(*Plugin::load(fixture("fake_communicator"), {}));
  ASSERT_EQ(rows.size(), 9u);
  EXPECT_EQ(rows[0].collective, RT_ALL_REDUCE);
  EXPECT_TRUE(rows[0].dtypes & RT_DTYPE_BIT(RT_FLOAT64));
  EXPECT_TRUE(rows[0].flags & RT_COMM_IN_PLACE);
}

TEST(Communicator, APluginWithoutTheTableSaysSo) {
  const auto plugin = Plugin::load(fixture("example"), {});
  EXPECT_THAT(error_of([&] { list_capabilities(*plugin); }).what(),
              HasSubstr("offers no communicators"));
}

TEST(Communicator, AHostWithoutAStoreIsRefused) {
  const auto plugin = Plugin::load(fixture("fake_communicator"), {});
  EXPECT_THAT(error_of([&] { Communicator::create(plugin, {.prefix = "none"}); }).what(),
              HasSubstr("no key-value store"));
}

}  // namespace
}  // namespace plugins::host::testing
