// A child process that answers through a pipe within a deadline.
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

// The file descriptor to which a child writes its answer.
constexpr int kAnswerDescriptor = 3;

// One child process. Movable; used by one thread at a time. The destructor kills the child and the
// processes that it started, if they still run. The child has no standard input. Its standard
// output and standard error go into one pipe, of which only the end is kept: nobody else sees what
// it prints.
class Child {
 public:
  using Clock = std::chrono::steady_clock;

  // Starts `program` with the environment of this process, in a process group of its own, with no
  // descriptors other than the answer and the output. The child blocks SIGINT, SIGTERM and SIGHUP.
  // Throws Error (RT_ERROR_UNAVAILABLE) with the system's message.
  Child(const std::filesystem::path& program, const std::vector<std::string>& arguments,
        Clock::time_point deadline);
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  ~Child();

  Clock::time_point deadline() const { return deadline_; }
  int answer_descriptor() const { return answer_.get(); }
  int output_descriptor() const { return output_.get(); }  // -1 if it is closed

  // Read what has arrived, without waiting. read_answer() returns false once the child has closed
  // its end or has written more than 8 MiB.
  bool read_answer();
  void read_output();
  const std::string& answer() const { return received_; }
  // The last line that the child printed, made printable; "" if there is none.
  std::string last_words() const;

  // Ends the child if it still runs, and tells how it ended: "ended with exit code 0", "was killed
  // by SIGBUS". Returns "" if this function had to kill it. A child that has closed its pipe gets
  // one second to end by itself.
  std::string end();

 private:
  // Whether the child has ended; it stays a zombie until reap().
  bool has_ended() const;
  std::optional<int> reap() const;

  pid_t id_ = -1;
  Clock::time_point deadline_;
  Descriptor answer_, output_;
  std::string received_, printed_;
};

}  // namespace plugins::host

#endif  // PLUGINS_HOST_CHILD_H_
