// Checks that ranks that cannot go on end with the right message and code.
#include "runtime/watch/watchdog.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "plugins/host/error.h"
#include "runtime/watch/ask_pace.h"
#include "tests/runtime/watch/ranks.h"

namespace runtime::watch {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// Waits in slices, as the executor does, for a collective that never completes.
void wait_in_vain(const Watchdog& watchdog) {
  for (const auto until = std::chrono::steady_clock::now() + seconds(20);
       std::chrono::steady_clock::now() < until; std::this_thread::sleep_for(milliseconds(5)))
    watchdog.check();
  throw std::runtime_error("the watchdog did not see it");
}

[[noreturn]] void hang() {
  for (;;) ::pause();
}

struct Rank {
  Rank(int rank, JobBoard& board, std::chrono::nanoseconds timeout, const Folder* folder = nullptr,
       Told told = Told::kAll)
      : recorder(rank, folder == nullptr ? "" : folder->path()),
        watchdog(recorder, board,
                 {.timeout = timeout,
                  .job_folder = folder == nullptr ? "" : folder->path(),
                  .run_folder = folder == nullptr ? "" : folder->path(),
                  .told = told}) {}
  FlightRecorder recorder;
  Watchdog watchdog;
};

TEST(Watchdog, ALateCollectiveNamesTheRankThatDoesNotAnswer) {
  SharedBoard board(2);
  Folder folder;
  Rank rank(0, board, milliseconds(200), &folder);
  rank.recorder.begin(all_reduce());
  ExitCode code = ExitCode::kDone;
  const std::string message =
      message_of([&] { rank.watchdog.run([&] { wait_in_vain(rank.watchdog); }); }, &code);
  EXPECT_EQ(code, ExitCode::kCommunication);
  EXPECT_THAT(message, StartsWith("rank 1 of 2 is lost: it does not answer; all_reduce #1 (431080 "
                                  "float32) did not complete within 0.2 s, on rank 0"));
  const auto file = folder.path() / "rank-0-collectives.txt";
  EXPECT_THAT(message, HasSubstr(file.string()));
  EXPECT_THAT(read_text(file), HasSubstr("#1 all_reduce float32 x 431080 sum"));
}

TEST(Watchdog, WithoutAFolderTheCollectivesGoToStderr) {
  SharedBoard board(2);
  Rank rank(0, board, milliseconds(100));
  rank.recorder.begin(all_reduce());
  testing::internal::CaptureStderr();
  EXPECT_NE(message_of([&] { wait_in_vain(rank.watchdog); }), "");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("STILL RUNNING for"));
}

TEST(Watchdog, WhatCompletesWhileTheRankComputesIsNotLate) {
  SharedBoard board(2);
  Rank rank(0, board, milliseconds(100));
  rank.watchdog.run([&] {
    const uint64_t sequence = rank.recorder.begin(all_reduce());
    rank.recorder.running(sequence);
    std::this_thread::sleep_for(milliseconds(400));
    rank.watchdog.check();
    rank.recorder.waiting(sequence);
    rank.recorder.end(sequence);
    std::this_thread::sleep_for(milliseconds(200));
    rank.watchdog.check();
  });
  EXPECT_FALSE(board.alarm());
}

TEST(Watchdog, APhaseHasADeadlineOfItsOwn) {
  SharedBoard board(2);
  Rank rank(0, board, seconds(60));
  EXPECT_THAT(message_of([&] {
                Watchdog::Phase phase(rank.watchdog, "rendezvous", milliseconds(100));
                wait_in_vain(rank.watchdog);
              }),
              HasSubstr("rendezvous did not complete within 0.1 s"));
}

TEST(Watchdog, AnErrorOfAnotherRankIsQuoted) {
  SharedBoard board(2);
  Rank zero(0, board, seconds(60)), one(1, board, seconds(60));
  zero.recorder.begin(all_reduce());
  std::thread failing([&] {
    EXPECT_EQ(message_of([&] { one.watchdog.run([] { throw NumericError("the loss is nan"); }); }),
              "the loss is nan");
  });
  EXPECT_THAT(message_of([&] { wait_in_vain(zero.watchdog); }),
              AllOf(StartsWith("rank 1 of 2 ended with: the loss is nan"),
                    HasSubstr("rank 0 was in all_reduce #1")));
  failing.join();
}

TEST(Watchdog, ARankThatIsDoneDisturbsNobody) {
  SharedBoard board(2);
  {
    Rank zero(0, board, seconds(60)), one(1, board, seconds(60));
    one.watchdog.run([] {});
    ASSERT_TRUE(becomes_true([&] { return !board.notes().empty(); }));
    std::this_thread::sleep_for(3 * Watchdog::kSlice);
    zero.watchdog.check();
    zero.watchdog.run([] {});
  }
  EXPECT_FALSE(board.alarm());
  ASSERT_EQ(board.notes().size(), 2u);
  EXPECT_EQ(board.notes()[0].kind, Note::Kind::kDone);
}

TEST(Watchdog, ARankThatStopsWithoutAWordSaysSo) {
  SharedBoard board(2);
  { Rank rank(1, board, seconds(60)); }
  ASSERT_EQ(board.notes().size(), 1u);
  EXPECT_EQ(board.notes()[0].kind, Note::Kind::kOwnError);
}

// An error of a communicator names the lost rank, even if no code calls fail().
TEST(Watchdog, AnErrorOfTheCommunicatorIsDiagnosed) {
  SharedBoard board(3);
  Rank zero(0, board, seconds(60)), one(1, board, seconds(60));
  std::string other;
  std::thread thread([&] { other = message_of([&] { wait_in_vain(one.watchdog); }); });
  zero.recorder.begin(all_reduce());
  ExitCode code = ExitCode::kDone;
  EXPECT_THAT(message_of(
                  [&] {
                    zero.watchdog.run([] {
                      throw plugins::host::Error(RT_ERROR_COMMUNICATION, "connection closed");
                    });
                  },
                  &code),
              AllOf(StartsWith("rank 2 of 3 is lost"), HasSubstr("connection closed, on rank 0"),
                    HasSubstr("ranks 0 and 1 wait for it")));
  EXPECT_EQ(code, ExitCode::kCommunication);
  thread.join();
  EXPECT_THAT(other, AllOf(StartsWith("rank 2 of 3 is lost"), HasSubstr("on rank 0")));
}

// Runs ranks 0 and 1 of 3, of which rank 0 notices that rank 2 is gone. Returns what each says.
std::vector<std::string> said_by_two_of_three(Told told) {
  SharedBoard board(3);
  const Folder folder;
  std::vector<std::string> said(2);
  {
    std::vector<std::jthread> threads;
    for (const int k : {0, 1})
      threads.emplace_back([&, k] {
        Rank rank(k, board, seconds(60), &folder, told);
        try {
          rank.watchdog.run([&] {
            rank.recorder.begin(all_reduce());
            if (k == 0) rank.watchdog.fail("connection closed", 2);
            wait_in_vain(rank.watchdog);
          });
        } catch (const ToldError& error) {
          EXPECT_THAT(error.what(), StartsWith("rank 2 of 3 is lost"));
        } catch (const std::exception& error) {
          said[k] = error.what();
        }
      });
  }
  for (const int k : {0, 1})
    EXPECT_TRUE(std::filesystem::exists(folder.path() /
                                        ("rank-" + std::to_string(k) + "-collectives.txt")));
  return said;
}

TEST(Watchdog, OneRankSaysAllAndTheOthersAreBrief) {
  const std::vector<std::string> said = said_by_two_of_three(Told::kBriefly);
  EXPECT_THAT(said[0], AllOf(StartsWith("rank 2 of 3 is lost"), HasSubstr("on rank 0"),
                             HasSubstr("rank-0-collectives.txt"), Not(HasSubstr("says more"))));
  EXPECT_THAT(said[1], AllOf(StartsWith("rank 2 of 3 is lost: its connections have broken without "
                                        "a word; rank 0 says more; last collectives: "),
                             HasSubstr("rank-1-collectives.txt")));
}

TEST(Watchdog, OneRankSaysAllAndTheOthersNothing) {
  const std::vector<std::string> said = said_by_two_of_three(Told::kNothing);
  EXPECT_THAT(said[0], StartsWith("rank 2 of 3 is lost"));
  EXPECT_EQ(said[1], "");
}

TEST(Watchdog, OneRankSaysAllAndTheOthersTheSame) {
  const std::vector<std::string> said = said_by_two_of_three(Told::kAll);
  EXPECT_EQ(said[0].substr(0, said[0].find("; last collectives")),
            said[1].substr(0, said[1].find("; last collectives")));
  EXPECT_THAT(said[1], HasSubstr("on rank 0"));
}

// Nobody would say what a rank finds out that ends without an error.
TEST(Watchdog, ARankThatIsDoneLeavesTheCauseToOthers) {
  SharedBoard board(3);
  const Folder folder;
  Rank zero(0, board, seconds(60), &folder, Told::kNothing);
  zero.watchdog.run([] {});
  ASSERT_TRUE(becomes_true([&] { return !board.notes().empty(); }));
  Rank one(1, board, seconds(60), &folder, Told::kNothing);
  const auto fail = [&] { one.watchdog.run([&] { one.watchdog.fail("connection closed", 2); }); };
  try {
    fail();
  } catch (const ToldError&) {
    ADD_FAILURE() << "rank 0 has ended without a word";
  } catch (const CommunicationError& error) {
    EXPECT_THAT(error.what(), StartsWith("rank 2 of 3 is lost"));
  }
  EXPECT_EQ(board.notes()[0].kind, Note::Kind::kDone);
}

// The error that a rank ends with may be another one than that which it has found for all.
TEST(Watchdog, ARankThatEndsWithAnotherErrorStillSaysWhatItHasFound) {
  SharedBoard board(2);
  const Folder folder;
  Rank rank(0, board, seconds(60), &folder, Told::kNothing);
  testing::internal::CaptureStderr();
  EXPECT_EQ(message_of([&] {
              rank.watchdog.run([&] {
                EXPECT_THROW(rank.watchdog.fail("connection closed", 1), CommunicationError);
                throw DataError("the disk is full");
              });
            }),
            "the disk is full");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), StartsWith("error: rank 1 of 2 is lost"));
}

TEST(Watchdog, ACauseThatARankEndsWithIsSaidOnce) {
  SharedBoard board(2);
  const Folder folder;
  testing::internal::CaptureStderr();
  {
    Rank rank(0, board, seconds(60), &folder, Told::kNothing);
    EXPECT_THAT(message_of([&] {
                  rank.watchdog.run([] {
                    throw plugins::host::Error(RT_ERROR_COMMUNICATION, "connection closed");
                  });
                }),
                StartsWith("rank 1 of 2 is lost"));
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(AskPace, AFewRanksAskAndTimesGrowSlowly) {
  for (const int ranks : {2, 3, 4, 8, 9, 64, 100, 256, 4096}) {
    SCOPED_TRACE(ranks);
    int asking = 0;
    for (int rank = 0; rank < ranks; ++rank) asking += asks(rank, ranks) ? 1 : 0;
    EXPECT_TRUE(asks(0, ranks));
    EXPECT_EQ(asking, std::min(ranks, doublings(ranks) + 1));
    EXPECT_LE(1 << (doublings(ranks) - 1), ranks - 1);
    EXPECT_GE(1 << doublings(ranks), ranks);
    EXPECT_LT(longest_wait(ranks), seconds(13));
  }
}

class BadBoard : public SharedBoard {
 public:
  using SharedBoard::SharedBoard;
  std::function<void()> trouble;
  bool alarm() override { return trouble(), false; }
  void post(const Note&) override { trouble(); }
};

TEST(Watchdog, ABoardThatCannotBeReachedIsNoAlarm) {
  BadBoard board(2);
  board.trouble = [] { throw CommunicationError("redis at 10.0.0.1:6379 does not answer"); };
  Rank rank(0, board, milliseconds(400));
  std::this_thread::sleep_for(milliseconds(200));
  rank.watchdog.check();
  rank.recorder.begin(all_reduce());
  EXPECT_THAT(message_of([&] { wait_in_vain(rank.watchdog); }),
              AllOf(StartsWith("rank 1 of 2 is lost, or rank 0 is cut off"),
                    HasSubstr("redis at 10.0.0.1:6379 does not answer")));
}

TEST(Watchdog, ABoardThatHangsDoesNotStopTheDeadline) {
  BadBoard board(2);
  std::atomic<bool> stop = false;
  board.trouble = [&] { becomes_true([&] { return stop.load(); }); };
  Rank rank(0, board, milliseconds(100));
  rank.recorder.begin(all_reduce());
  EXPECT_THAT(message_of([&] { wait_in_vain(rank.watchdog); }),
              HasSubstr("the store of the job did not answer"));
  stop = true;
}

// Ranks that are processes in a ring. A rank only detects that the connection to its left neighbour
// is closed.
class Ring {
 public:
  explicit Ring(int size) : pairs_(size) {
    for (auto& pair : pairs_) {
      if (::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()) != 0) throw std::runtime_error("ring");
    }
  }
  ~Ring() { close_others(-1); }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // pairs_[k] joins rank k (its end 0) with its right neighbour (end 1).
  void close_others(int rank) {
    for (size_t k = 0; k < pairs_.size(); ++k) {
      for (const int end : {0, 1}) {
        const bool own = rank >= 0 && static_cast<int>((k + end) % pairs_.size()) == rank;
        if (!own) ::close(pairs_[k][end]);
      }
    }
  }

  // Every rank waits for every other rank.
  void reduce(int rank, FlightRecorder& recorder, Watchdog& watchdog) {
    const uint64_t sequence = recorder.begin(all_reduce());
    const int left = pairs_[(rank + pairs_.size() - 1) % pairs_.size()][1];
    for (size_t round = 0; round < pairs_.size(); ++round) {
      char byte = 0;
      (void)!::send(pairs_[rank][0], &byte, 1, MSG_NOSIGNAL);
      for (pollfd ready{left, POLLIN, 0}; ::poll(&ready, 1, 50) == 0;) watchdog.check();
      if (::recv(left, &byte, 1, 0) != 1) watchdog.fail("connection closed by peer");
    }
    recorder.end(sequence);
  }

 private:
  std::vector<std::array<int, 2>> pairs_;
};

// Ranks that reduce without an end.
struct Job {
  Job(int size, std::chrono::nanoseconds timeout)
      : board(size), ring(size), processes(size, folder.path(), [&](int k) {
          ring.close_others(k);
          Rank rank(k, board, timeout, &folder);
          rank.watchdog.run([&] {
            for (;;) {
              ring.reduce(k, rank.recorder, rank.watchdog);
              std::this_thread::sleep_for(milliseconds(1));
            }
          });
        }) {
    ring.close_others(-1);
    for (int k = 0; k < size; ++k) {
      EXPECT_TRUE(becomes_true([&] {
        const auto known = read_recorder(folder.path(), k);
        return known && known->records.size() > 20;
      }));
    }
  }
  Folder folder;
  SharedBoard board;
  Ring ring;
  Processes processes;
};

void expect_rank_2_named(Job& job) {
  for (const int k : {0, 1, 3}) {
    EXPECT_EQ(job.processes.exit_code(k), 4);
    const std::string message = job.processes.errors(k);
    EXPECT_THAT(message, StartsWith("rank 2 of 4 is lost: it does not answer"));
    EXPECT_THAT(message, HasSubstr("rank 2 had completed #"));
    EXPECT_THAT(read_text(job.folder.path() / ("rank-" + std::to_string(k) + "-collectives.txt")),
                HasSubstr("STILL RUNNING"));
  }
  EXPECT_THAT(read_text(job.folder.path() / "rank-2-collectives.txt"), HasSubstr("rank 2: "));
}

TEST(WatchdogProcesses, AKilledRankIsNamedByAllSurvivors) {
  Job job(4, seconds(60));
  job.processes.signal(2, SIGKILL);
  expect_rank_2_named(job);
}

TEST(WatchdogProcesses, AStoppedRankIsNamedByAllSurvivors) {
  Job job(4, seconds(2));
  job.processes.signal(2, SIGSTOP);
  expect_rank_2_named(job);
  job.processes.signal(2, SIGCONT);
  EXPECT_EQ(job.processes.exit_code(2), 4);
}

// The thread never returns from the plugin.
TEST(WatchdogProcesses, AThreadThatIsStuckIsEndedFromOutside) {
  SharedBoard board(2);
  Folder folder;
  Processes processes(1, folder.path(), [&](int k) {
    Rank rank(k, board, milliseconds(100), &folder);
    rank.recorder.begin(all_reduce());
    hang();
  });
  EXPECT_EQ(processes.exit_code(0), 4);
  EXPECT_THAT(processes.errors(0), StartsWith("error: rank 1 of 2 is lost"));
}

// No code would catch this exception in the watchdog's thread.
TEST(WatchdogProcesses, AWatchdogWithoutMemoryEndsTheRankWithWords) {
  SharedBoard board(2);
  Folder folder;
  Processes processes(1, folder.path(), [&](int k) {
    Rank rank(k, board, seconds(60), &folder);
    rank.watchdog.attend([] { throw std::bad_alloc(); });
    hang();
  });
  EXPECT_EQ(processes.exit_code(0), 3);
  EXPECT_THAT(processes.errors(0),
              StartsWith("error: rank 0 cannot watch over its job any more: std::bad_alloc"));
}

TEST(WatchdogProcesses, AnUnwindingThatHangsIsEndedFromOutside) {
  struct Hangs {
    ~Hangs() { hang(); }
  };
  SharedBoard board(2);
  Folder folder;
  Processes processes(2, folder.path(), [&](int k) {
    Rank rank(k, board, seconds(60), &folder);
    Hangs communicator;
    rank.watchdog.run([&] {
      if (k == 1) throw NumericError("the loss is nan");
      wait_in_vain(rank.watchdog);
    });
  });
  EXPECT_EQ(processes.exit_code(0), 6) << "the code of the error that it names";
  EXPECT_THAT(processes.errors(0), StartsWith("error: rank 1 of 2 ended with: the loss is nan"));
  EXPECT_EQ(processes.exit_code(1), 6);
  EXPECT_EQ(processes.errors(1), "error: the loss is nan\n");
}

}  // namespace
}  // namespace runtime::watch
