// Checks the table of a communicator that is made from classes, and the helpers of communicators.
#include "rt/sdk/communicator_table.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/plugins/sdk/description.h"

namespace rt::sdk {
namespace {

// What the methods of the classes below were called with.
struct Calls {
  int begins = 0, ends = 0, destroyed = 0, released = 0;
  bool alive = true;
};

struct Work {
  explicit Work(Calls& made) : calls(made) {}
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  ~Work() { ++calls.destroyed; }
  bool poll() const { return calls.ends > 0; }
  void wait(Deadline deadline) const {
    if (deadline <= std::chrono::steady_clock::now()) throw Error(RT_ERROR_TIMEOUT, "too late");
  }
  Calls& calls;
};

// A work that something else owns.
struct OwnedWork : Work {
  using Work::Work;
  void release() { ++calls.released; }
};

template <typename Started>
struct Communicator : CommunicatorBase {
  explicit Communicator(Calls& made) : calls(made), owned(made) {}
  Started* enqueue(const rt_collective& call) {
    if (call.kind != RT_BARRIER) throw Error(RT_ERROR_UNSUPPORTED, "only barriers");
    if constexpr (std::is_same_v<Started, Work>) {
      return new Work(calls);
    } else {
      return &owned;
    }
  }
  std::unique_ptr<Communicator> split(int32_t color, int32_t, Deadline) {
    return color < 0 ? nullptr : std::make_unique<Communicator>(calls);
  }
  void begin_group() { ++calls.begins; }
  void end_group() { ++calls.ends; }
  void abort() { calls.alive = false; }
  std::optional<Error> failure() const {
    if (calls.alive) return std::nullopt;
    return Error(RT_ERROR_ABORTED, "aborted");
  }
  Calls& calls;
  OwnedWork owned;
};

template <typename Started>
struct State {
  static rt_comm_properties properties() {
    rt_comm_properties p{};
    p.priority = 7;
    return p;
  }
  static std::vector<rt_comm_capability> capabilities() { return all_collectives(kAllDtypes, 1); }
  std::unique_ptr<Communicator<Started>> create(const rt_host& host, const rt_comm_options& o) {
    expect_meeting_place(host, o);
    return std::make_unique<Communicator<Started>>(calls);
  }
  Calls calls;
};

rt_status set(void*, const char*, const void*, uint64_t, rt_error*) { return RT_OK; }
rt_status get(void*, const char*, void*, uint64_t*, int64_t, rt_error*) { return RT_OK; }

template <typename Started = Work>
struct Table {
  Table() {
    error.size = sizeof(error);
    options.size = sizeof(options);
    options.world_size = 2;
    host.kv_set = set;
    host.kv_get = get;
  }
  rt_communicator* create() {
    rt_communicator* made = nullptr;
    status = api.create(&instance, &options, &made, &error);
    return made;
  }
  rt_work* enqueue(rt_communicator* communicator, int32_t kind) {
    rt_collective call{};
    call.size = sizeof(call);
    call.kind = kind;
    rt_work* work = nullptr;
    status = api.enqueue(communicator, &call, &work, &error);
    return work;
  }

  rt_host host{};
  rt_comm_options options{};
  rt_error error{};
  rt_status status = RT_OK;
  PluginInstance<State<Started>> instance{{"a", "b", "c", "d", "e"}, &host};
  const rt_communicator_api api =
      communicator_table<State<Started>, Communicator<Started>, Started>();
  Calls& calls = instance.state.calls;
};

TEST(CommunicatorTable, FillsEverySlot) {
  const Table table;
  const auto* slots = reinterpret_cast<void* const*>(&table.api);
  for (size_t i = 1; i < sizeof(table.api) / sizeof(void*); ++i)
    EXPECT_NE(slots[i], nullptr) << "slot " << i;
  EXPECT_EQ(table.api.version, uint32_t{RT_COMMUNICATOR_API_VERSION});
}

TEST(CommunicatorTable, WritesPropertiesAndAsManyCapabilitiesAsThereIsRoomFor) {
  Table table;
  rt_comm_properties properties{};
  properties.size = sizeof(properties);
  EXPECT_EQ(table.api.properties(&table.instance, &properties, nullptr), RT_OK);
  EXPECT_EQ(properties.priority, 7);
  uint32_t count = 0;
  EXPECT_EQ(table.api.capabilities(&table.instance, nullptr, &count, nullptr), RT_OK);
  EXPECT_EQ(count, uint32_t{RT_BARRIER});
  rt_comm_capability rows[3] = {};
  rows[0].size = sizeof(rows[0]);
  count = 2;
  EXPECT_EQ(table.api.capabilities(&table.instance, rows, &count, nullptr), RT_OK);
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(rows[1].collective, RT_REDUCE_SCATTER);
  EXPECT_EQ(rows[2].collective, 0);
}

TEST(CommunicatorTable, TurnsExceptionsIntoStatuses) {
  Table table;
  rt_communicator* const communicator = table.create();
  EXPECT_EQ(table.enqueue(communicator, RT_SEND), nullptr);
  EXPECT_EQ(table.status, RT_ERROR_UNSUPPORTED);
  EXPECT_STREQ(table.error.message, "only barriers");
  EXPECT_EQ(table.api.asynchronous_error(communicator, &table.error), RT_OK);
  EXPECT_EQ(table.api.abort(communicator, &table.error), RT_OK);
  EXPECT_EQ(table.api.asynchronous_error(communicator, &table.error), RT_ERROR_ABORTED);
  table.api.destroy(communicator);
}

TEST(CommunicatorTable, EndsAGroupAtTheOutermostEnd) {
  Table table;
  rt_communicator* const communicator = table.create();
  EXPECT_EQ(table.api.group_end(communicator, &table.error), RT_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(table.error.message, "group_end without group_begin");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(table.api.group_begin(communicator, nullptr), RT_OK);
  EXPECT_EQ(table.api.group_end(communicator, nullptr), RT_OK);
  EXPECT_EQ(table.calls.ends, 0);
  EXPECT_EQ(table.api.group_end(communicator, nullptr), RT_OK);
  EXPECT_EQ(table.calls.ends, 1);
  EXPECT_EQ(table.calls.begins, 2);
  table.api.destroy(communicator);
}

TEST(CommunicatorTable, GivesOneCommunicatorToEachColour) {
  Table table;
  rt_communicator *const whole = table.create(), *part = whole;
  EXPECT_EQ(table.api.split(whole, -1, 0, 0, &part, nullptr), RT_OK);
  EXPECT_EQ(part, nullptr);
  EXPECT_EQ(table.api.split(whole, 3, 0, 0, &part, nullptr), RT_OK);
  ASSERT_NE(part, nullptr);
  table.api.destroy(part);
  table.api.destroy(whole);
}

TEST(CommunicatorTable, PollsWaitsForAndDestroysWork) {
  Table table;
  rt_communicator* const communicator = table.create();
  rt_work* const work = table.enqueue(communicator, RT_BARRIER);
  EXPECT_EQ(table.api.work_poll(work, nullptr), RT_NOT_READY);
  table.calls.ends = 1;
  EXPECT_EQ(table.api.work_poll(work, nullptr), RT_OK);
  EXPECT_EQ(table.api.work_wait(work, int64_t{60} * 1'000'000'000, nullptr), RT_OK);
  EXPECT_EQ(table.api.work_wait(work, -1, &table.error), RT_ERROR_TIMEOUT);
  table.api.work_destroy(work);
  EXPECT_EQ(table.calls.destroyed, 1);
  table.api.destroy(communicator);
}

TEST(CommunicatorTable, ReleasesWorkThatSomethingElseOwns) {
  Table<OwnedWork> table;
  rt_communicator* const communicator = table.create();
  table.api.work_destroy(table.enqueue(communicator, RT_BARRIER));
  EXPECT_EQ(table.calls.released, 1);
  EXPECT_EQ(table.calls.destroyed, 0);
  table.api.destroy(communicator);
}

TEST(ExpectMeetingPlace, RefusesRanksThatDoNotExistAndHostsWithoutAStore) {
  Table table;
  table.options.rank = 2;
  EXPECT_EQ(table.create(), nullptr);
  EXPECT_STREQ(table.error.message, "rank 2 of 2");
  table.host.kv_get = nullptr;
  EXPECT_EQ(table.create(), nullptr);
  EXPECT_EQ(table.status, RT_ERROR_UNAVAILABLE);
}

TEST(DeadlineIn, IsAtMostAYearFromNow) {
  const auto now = std::chrono::steady_clock::now();
  EXPECT_GT(deadline_in(INT64_MAX), now + std::chrono::hours(24 * 364));
  EXPECT_LT(deadline_in(INT64_MAX), now + std::chrono::hours(24 * 366));
  const Deadline passed = deadline_in(INT64_MIN);
  EXPECT_LE(passed, std::chrono::steady_clock::now());
}

}  // namespace
}  // namespace rt::sdk
