// One process that the launcher starts.
#ifndef RUNTIME_LAUNCH_CHILD_H_
#define RUNTIME_LAUNCH_CHILD_H_

#include <sys/types.h>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

namespace runtime::launch {

// Owns a file descriptor; -1 is none.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor();
  int get() const { return fd_; }
  void close() { *this = FileDescriptor(); }

 private:
  int fd_;
};

struct ChildSpec {
  std::string name;                    // for messages: "rank 2"
  int rank = -1;                       // -1: it is none, but starts them
  std::string program;                 // a path, or a name that is looked for in PATH
  std::vector<std::string> arguments;  // with the program's name as the first
  std::vector<std::string> environment;
  std::string remedy;  // what the user can do if it cannot be started
  // Without a pipe it writes where this process writes.
  bool pipe_out = true, pipe_err = true;
  std::string out_prefix, err_prefix;
  // What ends it at once, also when this process dies: SIGTERM for a launcher of other processes.
  int end_signal = SIGKILL;
};

struct Child {
  std::string name;
  int rank = -1;
  pid_t pid = -1;
  int end_signal = SIGKILL;
  FileDescriptor out, err;  // the reading ends, non-blocking; none without pipes
  bool given_up = false;    // killed by the launcher: how it ends says nothing
};

// Starts the program in a process group of its own, with /dev/null as its input and no signal
// blocked. It gets its end_signal when the calling *thread* ends. ConfigurationError if there is no
// such program, CommunicationError if the system refuses processes or pipes.
Child start(const ChildSpec& spec);

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_CHILD_H_
