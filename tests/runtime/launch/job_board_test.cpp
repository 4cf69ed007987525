// Checks notes of ranks and of the launcher, and whose note counts.
#include "runtime/launch/job_board.h"

#include <gmock/gmock.h>
#include <signal.h>

#include "runtime/launch/file_store.h"
#include "runtime/launch/memory_store.h"
#include "tests/runtime/watch/ranks.h"

namespace runtime::launch {
namespace {

using testing::HasSubstr;
using watch::Note;

TEST(StoreJobBoard, KeepsNotesAsTheyAre) {
  MemoryStore store;
  StoreJobBoard board(store, 3, "run-1/");
  EXPECT_TRUE(board.notes().empty());
  const Note done{0, Note::Kind::kDone};
  Note error{2, Note::Kind::kOwnError, "two\nlines\n", {{{4}, 7}, {{3, RT_SEND, 1}, 17}}, 6, 1, 0};
  watch::CollectiveRecord& pending = error.channels[1].pending;
  pending = {.sequence = 99, .kind = RT_SEND, .dtype = RT_FLOAT32, .peer = 1, .count = UINT64_MAX};
  pending.communicator = 3;
  pending.wait_ns = 12;
  pending.number = 17;
  pending.micro_batch = 2;
  pending.step = 812;
  pending.set_label("a layer, bucket 1");
  board.post(done);
  EXPECT_FALSE(board.alarm());
  board.post(error);
  EXPECT_TRUE(board.alarm());
  const std::vector<Note> notes = board.notes();
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_EQ(notes[0].rank, 0);
  EXPECT_EQ(notes[0].kind, Note::Kind::kDone);
  EXPECT_EQ(notes[1].rank, 2);
  EXPECT_EQ(notes[1].kind, Note::Kind::kOwnError);
  EXPECT_EQ(notes[1].text, error.text);
  ASSERT_EQ(notes[1].channels.size(), 2u);
  EXPECT_EQ(notes[1].channels[0].channel, error.channels[0].channel);
  EXPECT_EQ(notes[1].channels[0].started, 7u);
  EXPECT_EQ(notes[1].channels[0].pending.sequence, 0u);
  EXPECT_EQ(notes[1].channels[1].channel, error.channels[1].channel);
  EXPECT_EQ(watch::describe(notes[1].channels[1].pending), watch::describe(pending));
  EXPECT_EQ(notes[1].channels[1].pending.wait_ns, 12);
  EXPECT_EQ(notes[1].exit_code, 6);
  EXPECT_EQ(notes[1].silent, 1);
  EXPECT_EQ(notes[1].broken, 0);
  EXPECT_EQ(notes[0].silent, -1);
  EXPECT_EQ(notes[0].broken, -1);
}

TEST(StoreJobBoard, AttemptsDoNotSeeEachOther) {
  MemoryStore store;
  StoreJobBoard first(store, 2, "run-1/"), second(store, 2, "run-2/");
  first.post({0, Note::Kind::kLate, "late", {}});
  EXPECT_FALSE(second.alarm());
  EXPECT_TRUE(second.notes().empty());
}

// The rank that wrote a note exists, even if its note cannot be read.
TEST(StoreJobBoard, ANoteThatCannotBeReadIsStillAnAnswer) {
  MemoryStore store;
  StoreJobBoard board(store, 1);
  for (const char* bad : {"", "\n", "x", "1 2", "99 4 1 1 0\ntext", "-1 4 1 1 0\ntext",
                          "1 4 2 3 0 text", "1 4 -1 -1 99999999999999999999\ntext",
                          "1 4 -1 -1 1\n0 0 -1 7", "1 4 -1 -1 1000000000\ntext"}) {
    store.set("board/0", bad);
    const std::vector<Note> notes = board.notes();
    ASSERT_EQ(notes.size(), 1u) << bad;
    EXPECT_EQ(notes[0].kind, Note::Kind::kTold) << bad;
    EXPECT_EQ(notes[0].text, "") << bad;
  }
}

TEST(StoreJobBoard, KeepsTheVerdictAsItIs) {
  MemoryStore store;
  StoreJobBoard board(store, 5, "run-1/"), other(store, 5, "run-1/");
  const auto bell = other.verdict_bell();
  EXPECT_FALSE(bell->rings());
  EXPECT_FALSE(other.verdict());
  board.post(watch::Verdict{2, 6, {1, 4}, "two\nlines; 3\n"});
  EXPECT_TRUE(bell->rings());
  const watch::Verdict read = other.verdict().value();
  EXPECT_EQ(read.rank, 2);
  EXPECT_EQ(read.exit_code, 6);
  EXPECT_THAT(read.lost, testing::ElementsAre(1, 4));
  EXPECT_EQ(read.text, "two\nlines; 3\n");
  EXPECT_FALSE(other.alarm());
  for (const char* bad : {"", "x", "5 4 0\ntext", "-1 4 0\ntext", "0 0 0\ntext", "0 256 0\ntext",
                          "0 4 6 0 1 2 3 4 5\ntext", "0 4 1 5\ntext", "0 4 1\ntext", "0 4 0 text",
                          "0 4 99999999999999999999\ntext"}) {
    store.set("run-1/board/verdict", bad);
    EXPECT_FALSE(other.verdict()) << bad;
  }
}

// The launcher of each machine sees only the ranks of that machine.
TEST(StoreJobBoard, PassesOnWhatTheLauncherOfThisMachineSays) {
  MemoryStore store, launchers;
  const auto launcher = std::make_shared<StoreJobBoard>(launchers, 4);
  StoreJobBoard here(store, 4, "run-1/", launcher, true), elsewhere(store, 4, "run-1/");
  StoreJobBoard alone(store, 4, "run-1/", launcher, false);
  here.relay();
  here.post({1, Note::Kind::kOwnError, "own", {}});
  for (const int rank : {1, 3}) launcher->post({rank, Note::Kind::kLost, "killed", {}});
  launcher->post({2, Note::Kind::kTold, "exit code 4", {}});
  alone.relay();
  EXPECT_EQ(elsewhere.notes().size(), 1u);
  here.relay();
  std::vector<std::string> texts;
  for (const Note& note : elsewhere.notes()) texts.push_back(std::to_string(note.rank) + note.text);
  EXPECT_THAT(texts, testing::ElementsAre("1own", "3killed"));
}

TEST(StoreJobBoard, WhatIsPassedOnDoesNotReplaceAnOwnError) {
  MemoryStore store, launchers;
  const auto launcher = std::make_shared<StoreJobBoard>(launchers, 2);
  StoreJobBoard here(store, 2, "run-1/", launcher, true), elsewhere(store, 2, "run-1/");
  StoreJobBoard(store, 2, "run-1/").post({1, Note::Kind::kOwnError, "own", {}});
  launcher->post({1, Note::Kind::kLost, "it ended with exit code 5", {}});
  here.relay();
  ASSERT_EQ(elsewhere.notes().size(), 1u);
  EXPECT_EQ(elsewhere.notes()[0].text, "own");
}

TEST(StoreJobBoard, ReadsTheNotesOfManyRanksInParts) {
  constexpr int kMany = 600;
  MemoryStore store;
  StoreJobBoard board(store, kMany, "run-1/");
  for (int rank = 0; rank < kMany; ++rank)
    store.set("run-1/board/" + std::to_string(rank), "5 4 -1 -1 0\n");
  std::vector<size_t> known;
  for (int i = 0; i < 4; ++i) known.push_back(board.notes().size());
  EXPECT_THAT(known, testing::ElementsAre(256u, 512u, 600u, 600u));
}

TEST(StoreJobBoard, TheLauncherSpeaksUnlessTheRankHasAnErrorOfItsOwn) {
  MemoryStore store, launchers;
  const auto launcher = std::make_shared<StoreJobBoard>(launchers, 4);
  StoreJobBoard board(store, 4, "run-1/", launcher);
  board.post({1, Note::Kind::kOwnError, "own", {}});
  board.post({2, Note::Kind::kDone, "", {}});
  for (const int rank : {0, 1, 2}) launcher->post({rank, Note::Kind::kLost, "killed", {}});
  EXPECT_TRUE(board.alarm());
  std::vector<std::string> texts;
  for (const Note& note : board.notes()) texts.push_back(std::to_string(note.rank) + note.text);
  EXPECT_THAT(texts, testing::ElementsAre("0killed", "1own", "2killed"));
}

// A rank that gave up because of another rank is not itself the lost one.
TEST(StoreJobBoard, WhatTheLauncherSaysOfARankThatGaveUpIsNoCause) {
  MemoryStore store, launchers;
  const auto launcher = std::make_shared<StoreJobBoard>(launchers, 3);
  StoreJobBoard board(store, 3, "run-1/", launcher);
  board.post({0, Note::Kind::kLate, "late", {}});
  for (const int rank : {0, 1}) launcher->post({rank, Note::Kind::kTold, "exit code 4", {}});
  const std::vector<Note> notes = board.notes();
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_EQ(notes[0].kind, Note::Kind::kLate);
  EXPECT_EQ(notes[1].kind, Note::Kind::kTold);
  AttendedStore attended(std::make_shared<MemoryStore>(), launcher);
  const auto message = [&]() -> std::string {
    try {
      attended.get("key", std::chrono::hours(1));
    } catch (const CommunicationError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message(), HasSubstr("rank 0 of 3 gave up because of another one: exit code 4"));
  launcher->post({2, Note::Kind::kLost, "it was stopped", {}});
  EXPECT_THAT(message(), HasSubstr("rank 2 of 3 is lost: it was stopped"));
}

TEST(AttendedStore, FailsOnceARankIsGone) {
  MemoryStore launchers;
  const auto launcher = std::make_shared<StoreJobBoard>(launchers, 2);
  AttendedStore store(std::make_shared<MemoryStore>(), launcher);
  store.set("key", "value");
  EXPECT_EQ(store.try_get("key"), "value");
  EXPECT_EQ(store.try_get("other"), std::nullopt);
  launcher->post({1, Note::Kind::kLost, "it was killed", {}});
  try {
    store.get("other", std::chrono::hours(1));
    FAIL() << "expected an error";
  } catch (const CommunicationError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 1 of 2 is lost: it was killed"));
  }
}

// The ranks wait for a collective that never completes, until the launcher reports that one of them
// has died.
TEST(StoreJobBoard, TheLauncherSpeaksForARankThatDied) {
  const watch::Folder folder;
  watch::Processes ranks(3, folder.path(), [&](int rank) {
    FileStore store(folder.path() / "store");
    StoreJobBoard board(store, 3, "run-1/", launcher_board(folder.path() / "store", 3));
    watch::FlightRecorder recorder(rank, folder.path());
    watch::Watchdog watchdog(recorder, board, {.timeout = std::chrono::seconds(60)});
    watchdog.run([&] {
      recorder.begin(watch::all_reduce());
      watch::becomes_true([&] { return watchdog.check(), false; });
    });
  });
  for (const int rank : {0, 1, 2})
    ASSERT_TRUE(watch::becomes_true([&] {
      const auto known = watch::read_recorder(folder.path(), rank);
      return known && known->records.size() == 1;
    }));
  ranks.signal(2, SIGKILL);
  EXPECT_EQ(ranks.exit_code(2), -1);
  launcher_board(folder.path() / "store", 3)
      ->post({2, Note::Kind::kLost, "killed by signal 9 (Killed)", {}});
  for (const int rank : {0, 1}) {
    EXPECT_EQ(ranks.exit_code(rank), 4);
    EXPECT_THAT(ranks.errors(rank), HasSubstr("rank 2 of 3 is lost: killed by signal 9 (Killed)"));
  }
}

}  // namespace
}  // namespace runtime::launch
