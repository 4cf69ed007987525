// A child process that answers through a pipe, within a deadline.
#ifndef PLUGINS_HOST_CHILD_H_
#define PLUGINS_HOST_CHILD_H_

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "plugins/host/descriptor.h"

namespace plugins::host {

// The descriptor on which a child answers.
constexpr int kAnswerDescriptor = 3;

// Movable; the destructor kills what is left of the child and of the processes that it started. One
// thread at a time. The child has no standard input, and both its outputs go into a pipe of which
// the end is kept: what it prints reaches nobody else.
class Child {
 public:
  using Clock = std::chrono::steady_clock;

  // Starts `program` with the environment of this process, in a process group of its own, with no
  // signal blocked and no other descriptor. Throws Error (RT_ERROR_UNAVAILABLE) with the words of
  // the system.
  Child(const std::filesystem::path& program, const std::vector<std::string>& arguments,
        Clock::time_point deadline);
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  ~Child();

  Clock::time_point deadline() const { return deadline_; }
  int answer_descriptor() const { return answer_.get(); }
  int output_descriptor() const { return output_.get(); }  // -1: it is closed

  // Reads what is there without waiting; false once the child has closed its end, or has written
  // more than a child may.
  bool read_answer();
  void read_output();
  const std::string& answer() const { return received_; }
  // The last line that it printed, made printable; "" if there is none.
  std::string last_words() const;

  // Ends the child if it still runs and tells how it ended: "ended with exit code 0", "was killed
  // by SIGBUS". "" if it had to be killed. A child that has closed its pipe is given a moment.
  std::string end();

 private:
  bool has_ended() const;
  std::optional<int> reap() const;

  pid_t id_ = -1;
  Clock::time_point deadline_;
  Descriptor answer_, output_;
  std::string received_, printed_;
};

}  // namespace plugins::host

#endif  // PLUGINS_HOST_CHILD_H_
