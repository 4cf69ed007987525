// Starts the ranks of a test as processes, waits for them with a hard limit, and leaves none
// behind.
#ifndef TESTS_COLLECTIVES_SUPPORT_JOB_H_
#define TESTS_COLLECTIVES_SUPPORT_JOB_H_

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace collectives::testing {

struct JobOptions {
  std::vector<std::string> command;  // of every rank; the program must be an absolute path
  int ranks = 1;
  // The command that starts the ranks, put in front of `command`: {"mpiexec", "-n", "2"}. If it is
  // empty, this process starts them and passes rank and number of ranks in the environment (see
  // rank.h).
  std::vector<std::string> launcher = {};
  std::map<std::string, std::string> environment = {};  // added to the environment of this process
  std::chrono::milliseconds limit = std::chrono::seconds(100);
};

// The end of a started process.
struct ProcessEnd {
  int status = 0;                       // exit code, 128 + signal, or kNotEnded
  std::string output;                   // standard output and error
  static constexpr int kNotEnded = -1;  // killed at the limit
};

// Not thread-safe. Each job has an empty temporary folder, which its ranks use as key-value store.
class Job {
 public:
  explicit Job(const JobOptions& options);
  ~Job();  // kills all processes that still run
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  // `process` is a rank; with a launcher, the launcher is the only process.
  void send_signal(int process, int signal);
  bool has_ended(int process);
  // Waits for all processes; kills them at the limit, which counts from the start.
  const std::vector<ProcessEnd>& wait();

 private:
  void start(int process);
  bool reap_all();
  void kill_all();
  std::string output_of(int process) const;

  const JobOptions options_;
  const std::chrono::steady_clock::time_point deadline_;
  std::filesystem::path folder_;
  std::vector<pid_t> running_;  // 0: reaped
  std::vector<ProcessEnd> ends_;
  pid_t group_ = 0;
};

// Runs a job and returns the outputs. Each process that does not exit with 0 fails the calling
// test, which prints its output.
std::vector<std::string> expect_success(const JobOptions& options);

}  // namespace collectives::testing

#endif  // TESTS_COLLECTIVES_SUPPORT_JOB_H_
