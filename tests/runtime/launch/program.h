// Starts launch_program in a folder of its own and checks its output and the files and processes
// that it leaves.
#ifndef TESTS_RUNTIME_LAUNCH_PROGRAM_H_
#define TESTS_RUNTIME_LAUNCH_PROGRAM_H_

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace runtime::launch::test {

using Words = std::vector<std::string>;

// The kind of standard output. A kUnreadPipe is never read, a kBrokenPipe has no reader.
enum class Output { kFile, kTerminal, kUnreadPipe, kBrokenPipe, kFullDisk };

// Runs the program. Its processes can be found by a variable of their environment; the destructor
// kills them.
class Program {
 public:
  explicit Program(const Words& words, const std::map<std::string, std::string>& variables = {},
                   Output output = Output::kFile);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  std::string out() const;  // for a terminal, everything that it shows
  std::string err() const;
  // Waits until out() or err() contains `text` at least `times` times; fails the test after 20 s.
  void wait_for(const std::string& text, int times = 1) const;
  void send(int signal) const;
  void make_file(const std::string& name) const;  // in the working folder of the program
  void type(const std::string& keys) const;       // for a terminal only
  // Returns the exit code, or 128 + signal if a signal ended the program; fails the test after
  // `limit`.
  int wait(std::chrono::seconds limit = std::chrono::seconds(20));
  // The ids of running processes of the program, including its own.
  std::vector<pid_t> processes() const;
  // Waits up to `limit` until no process is left.
  bool all_gone(std::chrono::seconds limit) const;
  std::vector<std::string> left_files() const;  // in its temporary folder
  pid_t pid() const { return pid_; }

 private:
  std::filesystem::path folder_;
  pid_t pid_ = -1;
  int output_ = -1;  // the terminal, or the reading end of the pipe
  Output kind_;
  mutable std::string shown_;
};

size_t count(const std::string& text, const std::string& part);
std::vector<std::string> lines_of(const std::string& text);

}  // namespace runtime::launch::test

#endif  // TESTS_RUNTIME_LAUNCH_PROGRAM_H_
