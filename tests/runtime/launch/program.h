// Starts launch_program in a folder of its own, and sees what it prints and leaves behind.
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

// Where its standard output goes; a pipe is never read, and a broken one has no reader.
enum class Output { kFile, kTerminal, kUnreadPipe, kBrokenPipe, kFullDisk };

// Every process started in its folder can be found again by a variable of its environment, and is
// killed by the destructor.
class Program {
 public:
  explicit Program(const Words& words, const std::map<std::string, std::string>& variables = {},
                   Output output = Output::kFile);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  std::string out() const;  // on a terminal: all that it shows
  std::string err() const;
  // Until `text` is in out() or err(), `times` times; fails the test after 20 s.
  void wait_for(const std::string& text, int times = 1) const;
  void send(int signal) const;
  void type(const std::string& keys) const;  // on a terminal
  // The exit code, 128 + signal if one ended it; fails the test after `limit`.
  int wait(std::chrono::seconds limit = std::chrono::seconds(20));
  // Ids of processes that it has started and that still run, itself included.
  std::vector<pid_t> processes() const;
  // Waits until none is left, up to `limit`.
  bool all_gone(std::chrono::seconds limit) const;
  std::vector<std::string> left_files() const;  // in its temporary folder
  pid_t pid() const { return pid_; }

 private:
  std::filesystem::path folder_;
  pid_t pid_ = -1;
  int output_ = -1;  // the terminal or the reading end of the pipe
  Output kind_;
  mutable std::string shown_;
};

size_t count(const std::string& text, const std::string& part);
std::vector<std::string> lines_of(const std::string& text);

}  // namespace runtime::launch::test

#endif  // TESTS_RUNTIME_LAUNCH_PROGRAM_H_
