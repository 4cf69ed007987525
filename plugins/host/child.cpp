// Starts an isolated process, reads its pipes with a deadline, and ends it.
#include "plugins/host/child.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "plugins/host/error.h"
#include "plugins/host/printable.h"
#include "plugins/host/spawn.h"

namespace plugins::host {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMostAnswer = std::size_t{8} << 20;  // bytes
constexpr std::size_t kMostPrinted = 4096;  // bytes that are kept, from the end of the output
// Time that a child gets to end after it has closed its pipe, and again after SIGKILL. A process
// that hangs in a driver cannot be killed; the host does not wait for it any longer.
constexpr auto kEndGrace = 1000ms;

[[noreturn]] void fail(const std::string& what, int error) {
  throw Error(RT_ERROR_UNAVAILABLE, what + ": " + std::strerror(error));
}

std::string ending(int status) {
  if (WIFSIGNALED(status)) {
    const char* name = ::sigabbrev_np(WTERMSIG(status));
    return std::string("was killed by ") + (name != nullptr
                                                ? "SIG" + std::string(name)
                                                : "signal " + std::to_string(WTERMSIG(status)));
  }
  return "ended with exit code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

Child::Child(const std::filesystem::path& program, const std::vector<std::string>& arguments,
             Clock::time_point deadline)
    : deadline_(deadline) {
  Pipe answer = make_pipe(), output = make_pipe();
  if (!answer.read || !output.read) fail("cannot make a pipe to a child process", errno);
  Spawn what{program.string(), {program.string()}, {}};
  what.arguments.insert(what.arguments.end(), arguments.begin(), arguments.end());
  what.descriptors = {{output.write.get(), STDOUT_FILENO},
                      {output.write.get(), STDERR_FILENO},
                      {answer.write.get(), kAnswerDescriptor}};
  // They stop a job and go to all of its processes; a child that one of them kills would look like
  // a faulty plugin.
  what.blocked_signals = {SIGINT, SIGTERM, SIGHUP};
  what.isolated = true;
  const auto [id, error] = spawn(what);
  if (error != 0) fail("cannot start " + program.string(), error);
  id_ = id;
  answer_ = std::move(answer.read);
  output_ = std::move(output.read);
}

Child::Child(Child&& other) noexcept
    : id_(std::exchange(other.id_, -1)),
      deadline_(other.deadline_),
      answer_(std::move(other.answer_)),
      output_(std::move(other.output_)),
      received_(std::move(other.received_)),
      printed_(std::move(other.printed_)) {}

Child::~Child() {
  if (id_ > 0) end();
}

bool Child::read_answer() {
  std::array<char, 65536> buffer;
  for (;;) {
    const ssize_t got = ::read(answer_.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN;
    if (got == 0) return false;
    received_.append(buffer.data(), static_cast<std::size_t>(got));
    if (received_.size() > kMostAnswer) return false;
  }
}

void Child::read_output() {
  std::array<char, 4096> buffer;
  for (int i = 0; i < 64; ++i) {  // limits one call, for a child that never stops printing
    const ssize_t got = ::read(output_.get(), buffer.data(), buffer.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got <= 0) return output_.close();
    printed_.append(buffer.data(), static_cast<std::size_t>(got));
    if (printed_.size() > kMostPrinted) printed_.erase(0, printed_.size() - kMostPrinted);
  }
}

std::string Child::last_words() const {
  const std::size_t last = printed_.find_last_not_of(" \t\r\n");
  if (last == std::string::npos) return "";
  const std::size_t before = printed_.find_last_of('\n', last);
  const std::size_t first = before == std::string::npos ? 0 : before + 1;
  return printable(printed_.substr(first, last + 1 - first));
}

bool Child::has_ended() const {
  siginfo_t info{};
  const int options = WEXITED | WNOHANG | WNOWAIT;  // the number stays valid until reaped
  if (::waitid(P_PID, static_cast<id_t>(id_), &info, options) != 0) return errno != EINTR;
  return info.si_pid == id_;
}

// Returns nullopt if the child still runs although it was killed, or if somebody else has reaped
// it.
std::optional<int> Child::reap() const {
  const auto until = Clock::now() + kEndGrace;
  do {
    int status = 0;
    const pid_t got = ::waitpid(id_, &status, WNOHANG);
    if (got == id_) return status;
    if (got < 0 && errno != EINTR) return std::nullopt;
    std::this_thread::sleep_for(1ms);
  } while (Clock::now() < until);
  return std::nullopt;
}

std::string Child::end() {
  // A child that has closed its pipe is probably ending; it gets time for that.
  pollfd pipe{answer_.get(), POLLIN, 0};
  const bool closed = ::poll(&pipe, 1, 0) > 0 && (pipe.revents & (POLLHUP | POLLERR)) != 0;
  const auto until = Clock::now() + (closed ? kEndGrace : 0ms);
  while (!has_ended() && Clock::now() < until) std::this_thread::sleep_for(1ms);
  const bool by_itself = has_ended();
  ::kill(-id_, SIGKILL);  // kills the whole process group
  const std::optional<int> status = reap();
  id_ = -1;
  if (!by_itself) return "";
  return status ? ending(*status) : "ended in a way that is not known";
}

}  // namespace plugins::host
