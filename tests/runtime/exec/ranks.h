// Ranks for tests of the watchdog: a board, collectives that only the tests complete, and ranks as
// processes.
#ifndef TESTS_RUNTIME_EXEC_RANKS_H_
#define TESTS_RUNTIME_EXEC_RANKS_H_

#include <sys/types.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "runtime/exec/job_board.h"
#include "runtime/exec/watchdog.h"

namespace runtime::exec {

rt_collective all_reduce(uint64_t count = 431080);

// For ranks that are threads or forked processes.
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
  std::vector<Note> notes() override;

 private:
  struct Slot {  // written once
    std::atomic<bool> written;
    Note::Kind kind;
    Position position;
    int exit_code;
    std::array<char, 2000> text;
  };
  // By rank: that it is done, and what may come after that.
  using Slots = std::array<std::array<Slot, 2>, kRanks>;
  const int world_size_;
  Slots* slots_;
};

// A folder for one test, removed afterwards.
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

// What `work` throws; "" if nothing. The exit code of a runtime::Error in *code.
std::string message_of(const std::function<void()>& work, ExitCode* code = nullptr);

// Polls for at most 20 s.
bool becomes_true(const std::function<bool()>& condition);

// Processes, each running `rank(k)` as the program would: the exit code is that of the error, the
// message goes to <folder>/<k>.err, which also is its stderr. The destructor kills what is left.
class Processes {
 public:
  Processes(int count, const std::filesystem::path& folder, const std::function<void(int)>& rank);
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;
  void signal(int rank, int number) const;
  int exit_code(int rank);  // waits at most 20 s; -1: still there, or ended by a signal
  std::string errors(int rank) const;

 private:
  std::filesystem::path folder_;
  std::vector<pid_t> pids_;
};

}  // namespace runtime::exec

#endif  // TESTS_RUNTIME_EXEC_RANKS_H_
