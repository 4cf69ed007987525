// Checks that ranks wait for rank 0's work, and give up when it is lost or late.
#include "runtime/launch/main_work.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "runtime/error.h"
#include "runtime/launch/memory_store.h"
#include "runtime/launch/rendezvous_folder.h"
#include "tests/runtime/watch/ranks.h"

namespace runtime::launch {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using watch::SharedBoard;

constexpr int kRanks = 3;
// The deadline of a collective, which is also the longest time without a sign of life.
constexpr milliseconds kTimeout{300};

class MainWorks : public testing::Test {
 protected:
  using Body = std::function<void(int rank, MainWork& main_work, watch::Watchdog& watchdog)>;

  // The message of the error of each rank; "" for none.
  std::vector<std::string> run(const Body& body, std::chrono::nanoseconds timeout = seconds(20)) {
    std::vector<std::string> errors(kRanks);
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        watch::FlightRecorder recorder(rank, "");
        watch::Watchdog watchdog(recorder, board_, {.timeout = kTimeout});
        MainWork main_work(store_, watchdog, {"", rank, kTimeout, timeout, ""});
        try {
          watchdog.run([&] { body(rank, main_work, watchdog); });
        } catch (const std::exception& error) {
          errors[rank] = error.what();
        }
      });
    }
    threads.clear();
    return errors;
  }

  watch::SharedBoard board_{kRanks};
  MemoryStore store_;
};

TEST_F(MainWorks, TakesLongerThanACollectiveMay) {
  std::atomic<int> done = 0;
  const auto errors = run([&](int, MainWork& main_work, watch::Watchdog&) {
    for (int i = 1; i <= 2; ++i) {
      main_work.run("the work", [&] {
        std::this_thread::sleep_for(3 * kTimeout);
        ++done;
      });
      EXPECT_EQ(done, i) << "the others did not wait";
    }
  });
  EXPECT_THAT(errors, Each(""));
}

TEST_F(MainWorks, AnErrorIsTheJobs) {
  const auto errors = run([&](int, MainWork& main_work, watch::Watchdog&) {
    main_work.run("the work", [] { throw DataError("the disk is full"); });
  });
  EXPECT_EQ(errors[0], "the disk is full");
  for (int rank = 1; rank < kRanks; ++rank)
    EXPECT_THAT(errors[rank], HasSubstr("rank 0 of 3 ended with: the disk is full"));
}

// Without the protection by MainWork the process would be ended half a second after the error.
TEST_F(MainWorks, IsFinishedWhenAnotherRankIsLost) {
  std::atomic<bool> done = false;
  const auto errors = run([&](int rank, MainWork& main_work, watch::Watchdog&) {
    if (rank == 2) throw DataError("rank 2 has an error");
    main_work.run("the work", [&] {
      std::this_thread::sleep_for(3 * watch::Watchdog::kGrace);
      done = true;
    });
  });
  EXPECT_TRUE(done);
  EXPECT_THAT(errors[0], HasSubstr("rank 2 of 3 ended with: rank 2 has an error"));
}

TEST_F(MainWorks, ThatNobodyHearsOfIsGivenUp) {
  const auto errors = run([&](int rank, MainWork& main_work, watch::Watchdog& watchdog) {
    if (rank != 0) return main_work.run("the work", [] {});
    for (int i = 0; i < 1000; ++i) {  // this rank does not start the work
      watchdog.check();
      std::this_thread::sleep_for(milliseconds(5));
    }
  });
  EXPECT_THAT(errors[1], AllOf(HasSubstr("the work failed"),
                               HasSubstr("nothing has been heard of rank 0 for 0.3 s")));
}

TEST_F(MainWorks, ThatTakesTooLongEndsTheJobWithItsName) {
  // The work ends when the other ranks know of the delay, before the watchdog would end the
  // process.
  const auto errors = run(
      [&](int, MainWork& main_work, watch::Watchdog&) {
        main_work.run("the work", [&] {
          while (!board_.alarm()) std::this_thread::sleep_for(milliseconds(1));
        });
      },
      milliseconds(200));
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_THAT(errors[rank], AllOf(HasSubstr("the work has taken more than 0.2 s"),
                                    HasSubstr("comm.save_timeout_s")));
  }
}

TEST_F(MainWorks, ShowsTheLauncherALockWhileItIsDone) {
  const RendezvousFolder folder;
  EXPECT_FALSE(is_saving(folder.path()));
  {
    const SavingLock lock(folder.path());
    EXPECT_TRUE(is_saving(folder.path()));
  }
  EXPECT_FALSE(is_saving(folder.path()));
}

TEST_F(MainWorks, IsDoneWhereTheLauncherCannotSeeIt) {
  testing::internal::CaptureStderr();
  EXPECT_NO_THROW(SavingLock("/dev/null/folder"));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("warning: cannot lock /dev/null/folder/saving"),
                    HasSubstr("does not wait until rank 0 has saved")));
  EXPECT_FALSE(is_saving("/dev/null/folder"));
}

}  // namespace
}  // namespace runtime::launch
