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

// Puts the descriptors at their numbers. `above`: a number that none of them has. They are moved
// above it first, so that none takes the number of another one.
bool place_descriptors(const Spawn& what, int above) {
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  int moved[8] = {::fcntl(null, F_DUPFD_CLOEXEC, above)};
  const size_t count = std::min<size_t>(what.descriptors.size(), 7);
  for (size_t i = 0; i < count; ++i)
    moved[i + 1] = ::fcntl(what.descriptors[i].first, F_DUPFD_CLOEXEC, above);
  if (::dup2(moved[0], STDIN_FILENO) < 0) return false;
  for (size_t i = 0; i < count; ++i)
    if (::dup2(moved[i + 1], what.descriptors[i].second) < 0) return false;
  if (what.isolated) ::close_range(static_cast<unsigned>(above), ~0U, CLOSE_RANGE_CLOEXEC);
  return true;
}

// Runs in the child between fork and exec, so it calls async-signal-safe functions only. Returns
// only on failure, with errno set.
void become(const Spawn& what, pid_t parent, char* const* arguments, char* const* environment,
            const sigset_t& blocked, int above) {
  // The parent may have died before this call, and the signal would then never be sent.
  if (what.end_signal != 0 &&
      (::prctl(PR_SET_PDEATHSIG, what.end_signal) != 0 || ::getppid() != parent))
    ::_exit(1);
  ::setpgid(0, 0);
  for (int number = 1; what.isolated && number < NSIG; ++number) ::signal(number, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &blocked, nullptr);
  if (place_descriptors(what, above)) ::execvpe(what.program.c_str(), arguments, environment);
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
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {-1, errno};
  const Descriptor status(ends[0]);
  Descriptor report(ends[1]);
  const std::vector<char*> arguments = pointers(what.arguments),
                           environment = pointers(what.environment);
  sigset_t blocked;
  ::sigemptyset(&blocked);
  for (const int signal : what.blocked_signals) ::sigaddset(&blocked, signal);
  int above = STDERR_FILENO + 1;
  for (const auto& [here, there] : what.descriptors) above = std::max(above, there + 1);
  const pid_t parent = ::getpid(), id = ::fork();
  if (id == 0) {
    // The report keeps its place while descriptors are put at theirs.
    const int kept = ::fcntl(report.get(), F_DUPFD_CLOEXEC, above);
    become(what, parent, arguments.data(), what.environment.empty() ? environ : environment.data(),
           blocked, above);
    const int error = errno;
    ::_exit(::write(kept, &error, sizeof(error)) > 0 ? 127 : 126);
  }
  if (id < 0) return {-1, errno};
  report.close();
  const int error = exec_error(status);
  if (error != 0) ::waitpid(id, nullptr, 0);
  return {id, error};
}

}  // namespace plugins::host
