// A child process that answers questions, one line each. If a question kills the child, the reply
// says how it died, and the next question goes to a new child.
#ifndef TESTS_DIFFERENTIAL_OPERATIONS_WORKER_H_
#define TESTS_DIFFERENTIAL_OPERATIONS_WORKER_H_

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>

namespace differential {

class Worker {
 public:
  // Answers a question; neither question nor answer contains a line break.
  using Handler = std::function<std::string(const std::string&)>;

  // `make_handler` runs in each new child process. The calling process must have no other threads
  // when it forks. A child that does not answer within `limit` is killed.
  Worker(std::function<Handler()> make_handler, std::chrono::seconds limit);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  struct Reply {
    std::string text;
    // "SIGSEGV", "exit code 3" or "no answer within 60 s"; empty if the child lives.
    std::string death;
  };
  // Throws std::runtime_error with the message of the exception that `make_handler` threw in the
  // child, if it did.
  Reply ask(const std::string& question);

 private:
  void start();
  [[noreturn]] void serve(int socket);
  std::string read_line(bool& timed_out);
  Reply buried(bool timed_out);

  std::function<Handler()> make_handler_;
  std::chrono::seconds limit_;
  pid_t child_ = -1;
  int socket_ = -1;
  std::string received_;  // bytes after the last complete line
};

}  // namespace differential

#endif  // TESTS_DIFFERENTIAL_OPERATIONS_WORKER_H_
