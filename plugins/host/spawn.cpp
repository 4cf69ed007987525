// Forks and executes a program, and reports why that failed.
#include "plugins/host/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

namespace plugins::host {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  list.reserve(texts.size() + 1);
  for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

constexpr size_t kMostDescriptors = 7;

// Puts the descriptors at their numbers. `above`: a number that none of them has. They are moved
// above it first, so that none takes the number of another one. On failure errno has the reason.
bool place_descriptors(const Spawn& what, int above, int open_files) {
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  int moved[kMostDescriptors];
  const size_t count = what.descriptors.size();
  for (size_t i = 0; i < count; ++i)
    if ((moved[i] = ::fcntl(what.descriptors[i].first, F_DUPFD_CLOEXEC, above)) < 0) return false;
  if (null < 0 || ::dup2(null, STDIN_FILENO) < 0) return false;
  for (size_t i = 0; i < count; ++i)
    if (::dup2(moved[i], what.descriptors[i].second) < 0) return false;
  if (!what.isolated || ::close_range(static_cast<unsigned>(above), ~0U, CLOSE_RANGE_CLOEXEC) == 0)
    return true;
  for (int number = above; number < open_files; ++number) ::fcntl(number, F_SETFD, FD_CLOEXEC);
  return true;  // an old kernel, or one that does not allow the call
}

// Runs in the child between fork and exec, so it calls async-signal-safe functions only. Returns
// only on failure, with errno set.
void become(const Spawn& what, pid_t parent, char* const* arguments, char* const* environment,
            const sigset_t& blocked, int above, int open_files) {
  // The parent may have died before this call, and the signal would then never be sent.
  if (what.end_signal != 0 &&
      (::prctl(PR_SET_PDEATHSIG, what.end_signal) != 0 || ::getppid() != parent))
    ::_exit(1);
  ::setpgid(0, 0);
  for (int number = 1; what.isolated && number < NSIG; ++number) ::signal(number, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &blocked, nullptr);
  if (place_descriptors(what, above, open_files))
    ::execvpe(what.program.c_str(), arguments, environment);
}

// Returns the errno that the child has written before it ended, or 0 if it became the program.
int exec_error(const Descriptor& pipe) {
  int error = 0;
  ssize_t bytes = 0;
  do {
    bytes = ::read(pipe.get(), &error, sizeof(error));
  } while (bytes < 0 && errno == EINTR);
  return bytes == sizeof(error) ? error : 0;
}

}  // namespace

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Pipe();
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

Spawned spawn(const Spawn& what) {
  if (what.descriptors.size() > kMostDescriptors) return {-1, E2BIG};
  int above = STDERR_FILENO + 1;
  for (const auto& [here, there] : what.descriptors) above = std::max(above, there + 1);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {-1, errno};
  const Descriptor status(ends[0]);
  Descriptor low(ends[1]);
  // It keeps its place while descriptors are put at theirs.
  Descriptor report(::fcntl(low.get(), F_DUPFD_CLOEXEC, above));
  if (!report) return {-1, errno};
  low.close();
  const auto open_files = static_cast<int>(std::min<long>(::sysconf(_SC_OPEN_MAX), 1 << 16));
  const std::vector<char*> arguments = pointers(what.arguments),
                           environment = pointers(what.environment);
  sigset_t blocked;
  ::sigemptyset(&blocked);
  for (const int signal : what.blocked_signals) ::sigaddset(&blocked, signal);
  // No signal runs a handler of this process in the child.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t parent = ::getpid(), id = ::fork();
  const int fork_error = errno;
  if (id == 0) {
    become(what, parent, arguments.data(), what.environment.empty() ? environ : environment.data(),
           blocked, above, open_files);
    const int error = errno;
    ::_exit(::write(report.get(), &error, sizeof(error)) > 0 ? 127 : 126);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (id < 0) return {-1, fork_error};
  report.close();
  const int error = exec_error(status);
  if (error != 0) ::waitpid(id, nullptr, 0);
  return {id, error};
}

}  // namespace plugins::host
