// Checks the order of tasks, errors, and waits between queues.
#include "rt/sdk/host_queue.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "rt/sdk/recorded_event.h"
#include "tests/plugins/sdk/description.h"

namespace rt::sdk {
namespace {

// Keeps a queue busy until it is opened.
class Gate {
 public:
  std::function<void()> task() {
    return [this] { open_.wait(false); };
  }
  void open() {
    open_ = true;
    open_.notify_all();
  }

 private:
  std::atomic<bool> open_ = false;
};

TEST(HostQueue, RunsTasksInOrderAndLater) {
  std::vector<int> order;
  Gate gate;
  HostQueue<> queue;
  queue.submit(gate.task());
  for (int i = 0; i < 100; ++i) queue.submit([&order, i] { order.push_back(i); });
  EXPECT_TRUE(order.empty()) << "submit does not wait";
  gate.open();
  queue.synchronize();
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(HostQueue, TheDestructorWaitsForAllWork) {
  std::atomic<int> count = 0;
  {
    HostQueue<> queue;
    for (int i = 0; i < 100; ++i) queue.submit([&count] { ++count; });
  }
  EXPECT_EQ(count, 100);
}

TEST(HostQueue, AnErrorSkipsTheTasksBehindItUntilItIsReported) {
  std::vector<int> ran;
  Gate gate;
  HostQueue<> queue;
  queue.submit(gate.task());
  queue.submit([&] { ran.push_back(1); });
  queue.submit([] { throw Error(RT_ERROR_DEVICE, "it burns", RT_SCOPE_STREAM); });
  queue.submit([&] { ran.push_back(2); });
  const HostMarker behind = queue.mark();
  queue.submit([] { throw Error(RT_ERROR_DEVICE, "skipped, too"); });
  gate.open();
  EXPECT_EQ(error_of([&] { behind.synchronize(); }), "it burns");
  EXPECT_EQ(error_of([&] { queue.synchronize(); }), "it burns");
  EXPECT_EQ(error_of([&] { queue.synchronize(); }), "no error") << "it was reported";
  EXPECT_EQ(error_of([&] { behind.synchronize(); }), "it burns") << "a point keeps its error";
  EXPECT_EQ(error_of([&] { queue.mark().synchronize(); }), "no error");
  queue.submit([&] { ran.push_back(3); });
  queue.synchronize();
  EXPECT_EQ(ran, (std::vector<int>{1, 3}));
}

TEST(HostQueue, OtherExceptionsAreErrorsToo) {
  HostQueue<> queue;
  const auto status = [&] {
    rt_error error{};
    error.size = sizeof(error);
    const rt_status code = guard(&error, [&] { queue.synchronize(); });
    return std::pair(code, std::string(error.message));
  };
  queue.submit([] { throw std::runtime_error("a library's own"); });
  EXPECT_EQ(status(), std::pair(rt_status{RT_ERROR_INTERNAL}, std::string("a library's own")));
  queue.submit([] { throw 7; });
  EXPECT_EQ(status(), std::pair(rt_status{RT_ERROR_INTERNAL}, std::string("unknown exception")));
  queue.submit([] { throw std::bad_alloc(); });
  EXPECT_EQ(status().first, RT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(status().first, RT_OK);
}

TEST(HostQueue, AnErrorThatNobodyAskedForIsLost) {
  HostQueue<> queue;
  queue.submit([] { throw Error(RT_ERROR_DEVICE, "it burns"); });
}

TEST(HostQueue, WaitsForPointsOfOtherQueues) {
  std::vector<std::string> order;
  Gate gate;
  HostQueue<> first, second;
  first.submit(gate.task());
  first.submit([&] { order.emplace_back("first"); });
  second.wait(first.mark());
  second.submit([&] { order.emplace_back("second"); });
  const HostMarker end = second.mark();
  EXPECT_FALSE(end.is_complete());
  gate.open();
  end.synchronize();
  EXPECT_EQ(order, (std::vector<std::string>{"first", "second"}));
}

TEST(HostQueue, TakesOverTheErrorOfAPointThatItWaitsFor) {
  bool ran = false;
  HostQueue<> first, second;
  first.submit([] { throw Error(RT_ERROR_DEVICE, "it burns"); });
  second.wait(first.mark());
  second.submit([&] { ran = true; });
  EXPECT_EQ(error_of([&] { second.mark().synchronize(); }), "it burns");
  EXPECT_EQ(error_of([&] { second.synchronize(); }), "it burns");
  EXPECT_FALSE(ran);
  EXPECT_EQ(error_of([&] { first.synchronize(); }), "it burns");
}

TEST(HostQueue, ATaskOwnsNothingAnyMoreWhenItIsKnownToHaveRun) {
  HostQueue<> queue;
  const auto owned = std::make_shared<int>(1);
  for (int i = 0; i < 100; ++i) {
    queue.submit([copy = owned] {});
    queue.synchronize();
    ASSERT_EQ(owned.use_count(), 1);
  }
}

TEST(HostQueue, ItsPointsAreMarkersOfEvents) {
  HostQueue<> queue;
  RecordedEvent<HostMarker> begin, end;
  begin.record(queue);
  queue.submit([] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); });
  end.record(queue);
  end.synchronize();
  EXPECT_TRUE(begin.is_complete());
  EXPECT_GE(begin.elapsed_until(end), 2'000'000);
}

TEST(HostQueue, RunsTasksOfATypeOfItsUsers) {
  std::vector<int> seen;
  HostQueue<int> queue([&](int& task) { seen.push_back(task); });
  queue.submit(3);
  queue.submit(4);
  queue.synchronize();
  EXPECT_EQ(seen, (std::vector<int>{3, 4}));
}

}  // namespace
}  // namespace rt::sdk
