// Forks and executes a program with pipes for its output, and reports why that failed.
#include "runtime/launch/child.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "runtime/error.h"

namespace runtime::launch {

namespace {

struct Pipe {
  FileDescriptor read_end, write_end;
};

Pipe make_pipe(const std::string& for_what) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    throw CommunicationError("cannot make a pipe for " + for_what + ": " + std::strerror(errno) +
                             "; each rank needs two, see 'ulimit -n'");
  }
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  list.reserve(texts.size() + 1);
  for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

// Runs in the child between fork and exec, so it calls async-signal-safe functions only. Returns
// only on failure, with errno set.
void become(const ChildSpec& spec, pid_t launcher, int out, int err, char* const* arguments,
            char* const* environment) {
  // The launcher may have died before this call, and the signal would then never be sent.
  if (prctl(PR_SET_PDEATHSIG, spec.end_signal) != 0 || getppid() != launcher) _exit(1);
  setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null = open("/dev/null", O_RDONLY);
  if (null < 0 || dup2(null, STDIN_FILENO) < 0) return;
  if (out >= 0 && dup2(out, STDOUT_FILENO) < 0) return;
  if (err >= 0 && dup2(err, STDERR_FILENO) < 0) return;
  execvpe(spec.program.c_str(), arguments, environment);
}

// Returns the errno that the child has written before it ended, or 0 if it became the program.
int exec_error(const FileDescriptor& pipe) {
  int error = 0;
  ssize_t bytes = 0;
  do {
    bytes = read(pipe.get(), &error, sizeof(error));
  } while (bytes < 0 && errno == EINTR);
  return bytes == sizeof(error) ? error : 0;
}

}  // namespace

Child start(const ChildSpec& spec) {
  Pipe out, err, status = make_pipe(spec.name);
  if (spec.pipe_out) out = make_pipe(spec.name);
  if (spec.pipe_err) err = make_pipe(spec.name);
  const std::vector<char*> arguments = pointers(spec.arguments),
                           environment = pointers(spec.environment);
  const pid_t launcher = getpid(), pid = fork();
  if (pid == 0) {
    become(spec, launcher, out.write_end.get(), err.write_end.get(), arguments.data(),
           environment.data());
    const int error = errno;
    _exit(write(status.write_end.get(), &error, sizeof(error)) > 0 ? 127 : 126);
  }
  if (pid < 0) {
    throw CommunicationError("cannot start " + spec.name + ": fork: " + std::strerror(errno) +
                             "; start fewer ranks, or allow more processes ('ulimit -u')");
  }
  status.write_end.close();
  if (const int error = exec_error(status.read_end); error != 0) {
    waitpid(pid, nullptr, 0);
    throw ConfigurationError(
        "cannot start " + spec.name + ": '" + spec.program + "': " + std::strerror(error) + "; " +
        (error == EMFILE || error == ENFILE ? "allow more open files ('ulimit -n')" : spec.remedy));
  }
  for (const Pipe* pipe : {&out, &err})
    if (pipe->read_end.get() >= 0) fcntl(pipe->read_end.get(), F_SETFL, O_NONBLOCK);
  return {
      spec.name, spec.rank, pid, spec.end_signal, std::move(out.read_end), std::move(err.read_end)};
}

}  // namespace runtime::launch
