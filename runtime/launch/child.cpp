// Starts a program with pipes for its output, and says what to do if that fails.
#include "runtime/launch/child.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "runtime/error.h"
#include "runtime/launch/orders.h"

namespace runtime::launch {

namespace {

[[noreturn]] void fail_pipe(const std::string& name) {
  throw CommunicationError("cannot make a pipe for " + name + ": " + std::strerror(errno) +
                           "; each rank needs two, see 'ulimit -n'");
}

}  // namespace

void say(const Child& child, std::string_view text) {
  while (!text.empty()) {
    const ssize_t bytes = ::write(child.in.get(), text.data(), text.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return;
    text.remove_prefix(static_cast<size_t>(bytes));
  }
}

void send(const Child& child, int signal) {
  if (!child.leads_elsewhere()) {
    kill(child.pid, signal);
  } else {
    say(child, line_of(Order{.number = signal}));
  }
}

Child start(const ChildSpec& spec) {
  plugins::host::Pipe out, err;
  auto what = static_cast<const plugins::host::Spawn&>(spec);
  // A question (supervisor.h) must not end a rank that cannot answer yet, or never.
  what.blocked_signals.push_back(SIGUSR2);
  const auto add_pipe = [&](plugins::host::Pipe& pipe, int number) {
    pipe = plugins::host::make_pipe();
    if (!pipe.read) fail_pipe(spec.name);
    what.descriptors.emplace_back(pipe.write.get(), number);
  };
  if (spec.pipe_out) add_pipe(out, STDOUT_FILENO);
  if (spec.pipe_err) add_pipe(err, STDERR_FILENO);
  FileDescriptor in, read_by_child;
  if (spec.input) {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) fail_pipe(spec.name);
    read_by_child = FileDescriptor(ends[0]);
    in = FileDescriptor(ends[1]);
    what.descriptors.emplace_back(read_by_child.get(), STDIN_FILENO);
  }
  const auto [id, error] = plugins::host::spawn(what);
  if (id < 0) {
    throw CommunicationError("cannot start " + spec.name + ": " + std::strerror(error) +
                             "; start fewer ranks, or allow more processes ('ulimit -u') and open "
                             "files ('ulimit -n')");
  }
  if (error != 0) {
    throw ConfigurationError(
        "cannot start " + spec.name + ": '" + spec.program + "': " + std::strerror(error) + "; " +
        (error == EMFILE || error == ENFILE ? "allow more open files ('ulimit -n')" : spec.remedy));
  }
  Child child{spec.name,           spec.rank,           id,           spec.end_signal,
              std::move(out.read), std::move(err.read), std::move(in)};
  if (spec.input) say(child, *spec.input);
  return child;
}

}  // namespace runtime::launch
