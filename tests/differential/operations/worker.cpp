// Runs requests in a child process that may crash or hang, and starts another one then.
#include "tests/differential/operations/worker.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <stdexcept>
#include <system_error>

namespace differential {
namespace {

constexpr const char* kReady = "ready";

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

void send_line(int socket, const std::string& line) {
  const std::string bytes = line + "\n";
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t n = send(socket, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // the other side is gone; the next read will report that
    sent += static_cast<size_t>(n);
  }
}

std::string describe_death(int status) {
  if (WIFEXITED(status)) return "exit code " + std::to_string(WEXITSTATUS(status));
  const char* name = sigabbrev_np(WTERMSIG(status));
  return name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(WTERMSIG(status));
}

}  // namespace

Worker::Worker(std::function<Handler()> make_handler, std::chrono::seconds limit)
    : make_handler_(std::move(make_handler)), limit_(limit) {}

Worker::~Worker() {
  if (child_ < 0) return;
  close(socket_);  // the child reads the end of the stream and exits
  while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) continue;
}

void Worker::start() {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) fail("socketpair");
  std::fflush(nullptr);  // otherwise the child would write buffered output a second time
  child_ = fork();
  if (child_ < 0) fail("fork");
  if (child_ == 0) {
    close(sockets[0]);
    serve(sockets[1]);
  }
  close(sockets[1]);
  socket_ = sockets[0];
  received_.clear();
  bool timed_out = false;
  const std::string first = read_line(timed_out);
  if (first == kReady) return;
  const Reply reply = buried(timed_out);
  throw std::runtime_error(first.empty() ? "the child ended at its start: " + reply.death : first);
}

void Worker::serve(int socket) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  socket_ = socket;
  int code = 0;
  try {
    const Handler handler = make_handler_();
    send_line(socket, kReady);
    bool timed_out = false;
    limit_ = std::chrono::hours(24);
    for (std::string question = read_line(timed_out); !question.empty();
         question = read_line(timed_out))
      send_line(socket, handler(question));
  } catch (const std::exception& e) {
    send_line(socket, e.what());
    code = 1;
  }
  std::fflush(nullptr);
  _exit(code);
}

// Returns an empty line at the end of the stream or when the limit has passed.
std::string Worker::read_line(bool& timed_out) {
  const auto deadline = std::chrono::steady_clock::now() + limit_;
  for (;;) {
    const size_t end = received_.find('\n');
    if (end != std::string::npos) {
      const std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd waited = {socket_, POLLIN, 0};
    const int ready = poll(&waited, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (ready < 0 && errno == EINTR) continue;
    timed_out = ready == 0;
    char buffer[4096];
    const ssize_t n = ready > 0 ? read(socket_, buffer, sizeof(buffer)) : 0;
    if (n <= 0) return "";
    received_.append(buffer, static_cast<size_t>(n));
  }
}

Worker::Reply Worker::buried(bool timed_out) {
  if (timed_out) kill(child_, SIGKILL);
  int status = 0;
  while (waitpid(child_, &status, 0) < 0 && errno == EINTR) continue;
  close(socket_);
  child_ = -1;
  if (timed_out) return {"", "no answer within " + std::to_string(limit_.count()) + " s"};
  return {"", describe_death(status)};
}

Worker::Reply Worker::ask(const std::string& question) {
  if (child_ < 0) start();
  send_line(socket_, question);
  bool timed_out = false;
  const std::string answer = read_line(timed_out);
  return answer.empty() ? buried(timed_out) : Reply{answer, ""};
}

}  // namespace differential
