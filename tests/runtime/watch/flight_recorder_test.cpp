// Checks records of collectives, also of ranks that were killed.
#include "runtime/watch/flight_recorder.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <thread>

#include "tests/runtime/watch/ranks.h"

namespace runtime::watch {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(FlightRecorder, KeepsWhatWasBegunAndWhatHasCompleted) {
  FlightRecorder recorder(2);
  EXPECT_EQ(recorder.begin(all_reduce(10)), 1u);
  EXPECT_EQ(recorder.begin(all_reduce(20), 3), 2u);
  recorder.end(1);
  const RankRecords known = recorder.records();
  ASSERT_EQ(known.records.size(), 2u);
  EXPECT_EQ(known.rank, 2);
  EXPECT_EQ(known.records[0].count, 10u);
  EXPECT_GE(known.records[0].end_ns, known.records[0].start_ns);
  EXPECT_EQ(known.records[1].communicator, 3u);
  EXPECT_EQ(known.records[1].end_ns, 0);
  EXPECT_EQ(recorder.started(), 2u);
  EXPECT_EQ(recorder.completed(), 1u);
}

// However late a call begins.
TEST(FlightRecorder, CallsHaveTheirPlacesInThePlanOfTheStep) {
  FlightRecorder recorder(0);
  EXPECT_EQ(recorder.next_planned().position, 0) << "in no step";
  recorder.at_step(812, std::make_shared<const Plan>(Plan(2)));
  const PlanPlace first = recorder.next_planned(), second = recorder.next_planned();
  recorder.at_step(0);
  recorder.begin(all_reduce(), 0, {.place = first});
  recorder.begin(all_reduce());
  recorder.begin(all_reduce(), 0, {.place = second});
  const RankRecords known = recorder.records();
  std::vector<std::pair<int64_t, int64_t>> places;
  for (const CollectiveRecord& r : known.records) places.emplace_back(r.step, r.position);
  EXPECT_THAT(places, testing::ElementsAre(testing::Pair(812, 1), testing::Pair(0, 0),
                                           testing::Pair(812, 2)));
  ASSERT_NE(known.plan, nullptr);
  EXPECT_EQ(known.plan->size(), 2u);
}

TEST(FlightRecorder, CompletionOutOfOrder) {
  FlightRecorder recorder(0);
  for (int i = 0; i < 3; ++i) recorder.begin(all_reduce());
  recorder.end(2);
  EXPECT_EQ(recorder.completed(), 0u);
  EXPECT_EQ(recorder.pending(false).sequence, 1u);
  recorder.end(1);
  EXPECT_EQ(recorder.completed(), 2u);
  EXPECT_EQ(recorder.pending(false).sequence, 3u);
  recorder.end(3);
  EXPECT_EQ(recorder.pending(false).sequence, 0u);
}

rt_collective transfer(int32_t kind, int peer) {
  rt_collective c = all_reduce();
  c.kind = kind;
  c.peer = peer;
  return c;
}

// Ranks of a mesh share some communicators only, so that their calls are counted for each of them.
TEST(FlightRecorder, CountsEachChannelByItself) {
  FlightRecorder recorder(0);
  for (int i = 0; i < 3; ++i) recorder.end(recorder.begin(all_reduce()));
  recorder.end(recorder.begin(all_reduce(), 2));
  recorder.running(recorder.begin(all_reduce(), 2, {.label = "bucket 1"}));
  recorder.begin(all_reduce(), 2, {.label = "bucket 2"});
  recorder.end(recorder.begin(transfer(RT_SEND, 1), 3));
  recorder.end(recorder.begin(transfer(RT_SEND, 2), 3));
  recorder.end(recorder.begin(transfer(RT_RECEIVE, 2), 3));
  const std::vector<ChannelState> states = recorder.channels();
  ASSERT_EQ(states.size(), 5u);
  EXPECT_EQ(states[0].channel, (Channel{0}));
  EXPECT_EQ(states[0].started, 3u);
  EXPECT_EQ(states[0].pending.sequence, 0u);
  EXPECT_EQ(states[1].channel, (Channel{2}));
  EXPECT_EQ(states[1].started, 3u);
  EXPECT_EQ(states[1].pending.number, 3u) << "the rank does not wait for the second one";
  EXPECT_EQ(states[1].pending.label_text(), "bucket 2");
  for (size_t i = 2; i < 5; ++i) EXPECT_EQ(states[i].started, 1u);
  EXPECT_EQ(states[3].channel, (Channel{3, RT_SEND, 2}));
  EXPECT_EQ(states[4].channel, (Channel{3, RT_RECEIVE, 2}));
}

// What was done long ago counts, though its records are gone.
TEST(FlightRecorder, CountsWhatItHasForgotten) {
  FlightRecorder recorder(0);
  recorder.end(recorder.begin(all_reduce(), 4));
  for (size_t i = 0; i < FlightRecorder::kSlots; ++i) recorder.end(recorder.begin(all_reduce()));
  ASSERT_EQ(recorder.channels().size(), 2u);
  EXPECT_EQ(recorder.channels()[0].channel, (Channel{4}));
  EXPECT_EQ(recorder.channels()[0].started, 1u);
}

TEST(FlightRecorder, KnowsForWhatTheRankWaits) {
  FlightRecorder recorder(0);
  recorder.begin(all_reduce());
  EXPECT_EQ(recorder.pending(true).sequence, 1u) << "its enqueue has not returned";
  recorder.running(1);
  recorder.begin(all_reduce());
  recorder.running(2);
  EXPECT_EQ(recorder.pending(true).sequence, 0u);
  EXPECT_EQ(recorder.pending(false).sequence, 1u);
  recorder.waiting(2);
  EXPECT_EQ(recorder.pending(true).sequence, 2u);
}

TEST(FlightRecorder, RefusesMoreInFlightThanItCanFollow) {
  FlightRecorder recorder(0);
  for (size_t i = 0; i < FlightRecorder::kSlots; ++i) recorder.begin(all_reduce());
  ExitCode code = ExitCode::kDone;
  EXPECT_THAT(message_of([&] { recorder.begin(all_reduce()); }, &code),
              HasSubstr("comm.bucket_mb"));
  EXPECT_EQ(code, ExitCode::kCommunication);
  recorder.end(1);
  EXPECT_EQ(recorder.begin(all_reduce()), FlightRecorder::kSlots + 1);
}

TEST(FlightRecorder, DumpsTheLast64AndThoseThatStillRun) {
  FlightRecorder recorder(1);
  for (uint64_t i = 1; i <= 100; ++i) {
    recorder.begin(all_reduce(i));
    if (i != 7 && i != 100) recorder.end(i);
  }
  const RankRecords known = recorder.records();
  const std::string text = dump(known, known.records.back().start_ns + 2'000'000'000);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1 + 64 + 1);
  EXPECT_THAT(text, HasSubstr("rank 1"));
  EXPECT_THAT(text, HasSubstr("#99 all_reduce float32 x 99 sum, started 0.0"));
  EXPECT_THAT(text, HasSubstr("#100 all_reduce float32 x 100 sum"));
  EXPECT_THAT(text, HasSubstr("STILL RUNNING for 2.0 s"));
  EXPECT_THAT(text, HasSubstr("#7 "));
  EXPECT_THAT(text, Not(HasSubstr("#36 ")));
}

TEST(FlightRecorder, DescribesEachKind) {
  CollectiveRecord r{
      .kind = RT_ALL_REDUCE, .dtype = RT_FLOAT32, .peer = 1, .count = 431080, .number = 17};
  EXPECT_EQ(describe(r), "all_reduce #17 (431080 float32)");
  r.set_label("bucket 0");
  EXPECT_EQ(describe(r), "all_reduce #17 (431080 float32, bucket 0)");
  const Groups groups{{"the pipeline axis"}, [](uint64_t, int rank) {
                        return std::vector<int>{rank % 2, rank % 2 + 2};
                      }};
  EXPECT_EQ(describe(r, groups, 1),
            "all_reduce #17 of the pipeline axis (431080 float32, bucket 0)");
  r.micro_batch = 2;
  r.kind = RT_SEND;
  EXPECT_EQ(describe(r, groups, 1),
            "send #17 to rank 3 along the pipeline axis (431080 float32, bucket 0, micro-batch 2)");
  r.kind = RT_RECEIVE;
  EXPECT_EQ(describe(r), "receive #17 from rank 1 (431080 float32, bucket 0, micro-batch 2)");
  r.step = 812;
  EXPECT_EQ(describe(r),
            "receive #17 from rank 1 (431080 float32, bucket 0, micro-batch 2, step 812)");
  r.micro_batch = 0;
  r.set_label("");
  EXPECT_EQ(describe(r), "receive #17 from rank 1 (431080 float32, step 812)");
  r.kind = RT_BARRIER;
  EXPECT_EQ(describe(r), "barrier #17");
  r.step = 0;
  r.kind = -5;
  r.dtype = 1000;
  EXPECT_EQ(describe(r), "collective -5 #17 (431080 dtype 1000)");
}

// The reader reads while the writer writes; every record that is read must be complete.
TEST(FlightRecorder, IsReadWhileItIsWritten) {
  FlightRecorder recorder(0);
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    while (!stop) {
      const uint64_t sequence = recorder.started() + 1;
      recorder.begin(all_reduce(sequence * 3), sequence * 5);
      recorder.end(sequence);
    }
  });
  EXPECT_TRUE(becomes_true([&] { return recorder.completed() > 3000; }));
  for (int i = 0; i < 50; ++i) {
    for (const CollectiveRecord& r : recorder.records().records) {
      ASSERT_EQ(r.count, r.sequence * 3);
      ASSERT_EQ(r.communicator, r.sequence * 5);
      ASSERT_TRUE(r.end_ns == 0 || r.end_ns >= r.start_ns);
    }
  }
  stop = true;
  writer.join();
}

TEST(FlightRecorder, OutlivesAKilledAndAStoppedProcess) {
  Folder folder;
  Processes ranks(2, folder.path(), [&](int rank) {
    FlightRecorder recorder(rank, folder.path());
    for (int i = 1; i <= 16 + rank; ++i) {
      recorder.begin(all_reduce());
      if (i <= 16) recorder.end(i);
    }
    std::ofstream(folder.path() / (std::to_string(rank) + ".ready"));
    ::pause();
  });
  for (const char* name : {"0.ready", "1.ready"})
    ASSERT_TRUE(becomes_true([&] { return std::filesystem::exists(folder.path() / name); }));
  ranks.signal(0, SIGKILL);
  ranks.signal(1, SIGSTOP);
  EXPECT_EQ(ranks.exit_code(0), -1);
  const auto known = read_recorders(folder.path());
  ASSERT_EQ(known.size(), 2u);
  ASSERT_EQ(known.at(0).channels().size(), 1u);
  EXPECT_EQ(known.at(0).channels()[0].started, 16u);
  EXPECT_EQ(known.at(0).channels()[0].pending.sequence, 0u);
  EXPECT_EQ(known.at(1).channels()[0].started, 17u);
  EXPECT_EQ(known.at(1).channels()[0].pending.number, 17u);
}

TEST(FlightRecorder, AFolderThatIsNotThereIsNamed) {
  EXPECT_THAT(message_of([] { FlightRecorder recorder(0, "/dev/null/folder"); }),
              HasSubstr("/dev/null/folder/rank-0.recorder"));
  EXPECT_TRUE(read_recorders("/dev/null/folder").empty());
}

// Any bytes can be read and printed without a crash, and foreign files are ignored.
TEST(FlightRecorder, GarbageInTheFolder) {
  Folder folder;
  std::string good;
  {
    FlightRecorder recorder(3, folder.path());
    for (int i = 1; i <= 50; ++i) recorder.begin(all_reduce());
    good = read_text(folder.path() / "rank-3.recorder");
  }
  std::filesystem::create_directory(folder.path() / "rank-9.recorder");
  std::ofstream(folder.path() / "rank-1.recorder") << "short";
  std::ofstream(folder.path() / "rank-2.recorder") << good;  // a file of another rank
  std::ofstream(folder.path() / "rank-4.recorder") << std::string(good.size(), 'x');
  ASSERT_EQ(read_recorders(folder.path()).size(), 1u);
  EXPECT_EQ(read_recorders(folder.path()).at(3).records.size(), 50u);

  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::string bad = good;
    for (int i = 0; i < 2000; ++i)
      bad[16 + random() % (bad.size() - 16)] = static_cast<char>(random());
    std::ofstream(folder.path() / "rank-3.recorder") << bad;
    for (const auto& [rank, records] : read_recorders(folder.path())) {
      EXPECT_FALSE(dump(records, monotonic_ns()).empty());
      for (const ChannelState& state : records.channels())
        EXPECT_LE(state.pending.number, state.started);
    }
  }
}

}  // namespace
}  // namespace runtime::watch
