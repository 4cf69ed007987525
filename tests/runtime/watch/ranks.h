// Ranks for tests of the watchdog: a job board, collectives that only the tests complete, and ranks
// as processes.
#ifndef TESTS_RUNTIME_WATCH_RANKS_H_
#define TESTS_RUNTIME_WATCH_RANKS_H_

#include <sys/types.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugins/host/descriptor.h"
#include "runtime/watch/job_board.h"
#include "runtime/watch/watchdog.h"

namespace runtime::watch {

rt_collective all_reduce(uint64_t count = 431080);

// A job board for ranks that are threads or forked processes.
class SharedBoard : public JobBoard {
 public:
  static constexpr int kRanks = 8;
  explicit SharedBoard(int world_size);
  ~SharedBoard() override;
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;
  int world_size() const override { return world_size_; }
  void post(const Note& note) override;
  bool alarm() override;
  std::unique_ptr<Bell> alarm_bell() override;
  void post(const Verdict& verdict) override;
  std::optional<Verdict> verdict() override;
  std::unique_ptr<Bell> verdict_bell() override;
  std::unique_ptr<JobBoard> inquiry(int number) override;  // throws: no test has one
  std::vector<Note> notes() override;

 private:
  struct Slot {  // written only once
    std::atomic<bool> written;
    Note::Kind kind;
    size_t channels;
    std::array<ChannelState, 8> channel;
    int exit_code, silent, broken;
    std::array<char, 2000> text;
  };
  struct Shared {
    // For each rank one for the note that it is done, and one for a later note.
    std::array<std::array<Slot, 2>, kRanks> slots;
    std::atomic<int> verdicts;  // how many were posted; the first one counts
    Slot verdict;
    std::array<bool, kRanks> lost;
  };
  const int world_size_;
  Shared* shared_;
  // readable once there is an alarm, and a verdict
  const plugins::host::Descriptor alarm_event_, verdict_event_;
};

// A temporary folder for one test, which the destructor removes.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string read_text(const std::filesystem::path& file);

// Reads the recorders of the first `ranks` ranks in a folder; those that cannot be read are left
// out.
std::map<int, RankRecords> read_recorders(const std::filesystem::path& folder, int ranks = 10);

// The message of what `work` throws; "" if it throws nothing. *code gets the exit code of a
// runtime::Error.
std::string message_of(const std::function<void()>& work, ExitCode* code = nullptr);

// Polls the condition for at most 20 s.
bool becomes_true(const std::function<bool()>& condition);

// Processes that each run `rank(k)` as the program would: the exit code is that of the error; the
// message and standard error go to <folder>/<k>.err. The destructor kills processes that still run.
class Processes {
 public:
  Processes(int count, const std::filesystem::path& folder, const std::function<void(int)>& rank);
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;
  void signal(int rank, int number) const;
  int exit_code(int rank);  // waits at most 20 s; -1 if the process still runs or a signal ended it
  std::string errors(int rank) const;

 private:
  std::filesystem::path folder_;
  std::vector<pid_t> pids_;
};

}  // namespace runtime::watch

#endif  // TESTS_RUNTIME_WATCH_RANKS_H_
