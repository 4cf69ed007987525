// Starts several runs, waits for any of them, and passes signals on.
#include "tools/trials/pool.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <filesystem>
#include <list>
#include <utility>

#include "runtime/error.h"
#include "runtime/launch/child.h"
#include "runtime/launch/cores.h"
#include "tools/trials/lines.h"

namespace tools::trials {

namespace {

namespace launch = runtime::launch;
using Clock = std::chrono::steady_clock;

// How long a run may take to save itself before it is killed.
constexpr std::chrono::seconds kGrace{60};
constexpr std::array<int, 3> kStopSignals = {SIGINT, SIGTERM, SIGHUP};

bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

sigset_t handled_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  for (const int signal : kStopSignals)
    if (!is_ignored(signal)) sigaddset(&set, signal);
  return set;
}

// The processors that a child inherits while this object exists.
class Affinity {
 public:
  explicit Affinity(const std::vector<int>& processors) {
    if (processors.empty()) return;
    for (const std::vector<int>& core : launch::allowed_cores())
      before_.processors.insert(before_.processors.end(), core.begin(), core.end());
    launch::apply({static_cast<int>(processors.size()), processors});
  }
  ~Affinity() { launch::apply(before_); }
  Affinity(const Affinity&) = delete;
  Affinity& operator=(const Affinity&) = delete;

 private:
  launch::CoreShare before_;
};

launch::FileDescriptor open_log(const std::string& path) {
  if (path.empty()) return launch::FileDescriptor();
  launch::FileDescriptor log(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (log.get() >= 0) return log;
  throw runtime::DataError(path + ": cannot be opened for writing: " + std::strerror(errno) +
                           "; choose a folder that can be written");
}

// One run that has not ended.
struct Run {
  Task task;
  launch::Child child;
  launch::FileDescriptor log;
  Clock::time_point begin = Clock::now();
  std::optional<Clock::time_point> kill_at = {};  // set when it was asked to end
  Ended ended = {};
  Lines out = {};
  ErrorText err = {};

  bool is_late(Clock::time_point now) const {
    return task.timeout_s > 0 && now - begin > std::chrono::duration<double>(task.timeout_s);
  }
  void ask_to_end() {
    if (kill_at) return;
    kill_at = Clock::now() + kGrace;
    ::kill(child.pid, SIGTERM);
  }
  // The whole process group, in case the run has processes of its own.
  void kill_now() const { ::kill(-child.pid, SIGKILL); }

  void read_output() {
    out.add(read_available(child.out), [this](const std::string& line) {
      ended.output = line;
      if (ended.stopped || !task.on_line || task.on_line(line)) return;
      ended.stopped = true;
      ask_to_end();
    });
    const std::string text = read_available(child.err);
    err.add(text);
    // A full disk must not end the run; the message for the user does not depend on the log.
    if (log.get() >= 0 && !text.empty() && ::write(log.get(), text.data(), text.size()) < 0)
      log.close();
  }
};

}  // namespace

class Pool::Implementation {
 public:
  explicit Implementation(std::string program) : program_(std::move(program)) {
    const sigset_t handled = handled_signals();
    signals_ = launch::FileDescriptor(signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
    if (signals_.get() < 0) {
      throw runtime::CommunicationError(std::string("cannot wait for signals: signalfd: ") +
                                        std::strerror(errno) +
                                        "; allow more open files ('ulimit -n')");
    }
    pthread_sigmask(SIG_BLOCK, &handled, &before_);
  }

  ~Implementation() {
    for (const Run& run : runs_) run.kill_now();
    for (const Run& run : runs_) {
      while (waitpid(run.child.pid, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;

  int start(Task task) {
    launch::ChildSpec spec;
    spec.name = task.name;
    spec.program = program_;
    spec.arguments = {"runtime"};
    spec.arguments.insert(spec.arguments.end(), task.arguments.begin(), task.arguments.end());
    spec.remedy = "install it beside this program";
    spec.end_signal = SIGTERM;
    launch::FileDescriptor log = open_log(task.log);
    const Affinity affinity(task.processors);
    runs_.push_back({std::move(task), launch::start(spec), std::move(log)});
    runs_.back().ended.id = next_;
    return next_++;
  }

  std::optional<Ended> wait() {
    while (!runs_.empty()) {
      take_signals();
      const Clock::time_point now = Clock::now();
      for (auto run = runs_.begin(); run != runs_.end(); ++run) {
        run->read_output();
        end_if_due(*run, now);
        if (std::optional<Ended> ended = reap(*run)) {
          runs_.erase(run);
          return ended;
        }
      }
      wait_for_events();
    }
    return std::nullopt;
  }

  size_t running() const { return runs_.size(); }
  int signal() const { return signal_; }

 private:
  void take_signals() {
    signalfd_siginfo info{};
    while (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
      if (info.ssi_signo == SIGCHLD) continue;
      for (Run& run : runs_) {
        run.ended.stopped = true;
        if (signal_ != 0) {
          run.kill_now();
        } else {
          run.ask_to_end();
        }
      }
      if (signal_ == 0) signal_ = static_cast<int>(info.ssi_signo);
    }
  }

  static void end_if_due(Run& run, Clock::time_point now) {
    if (run.kill_at && now > *run.kill_at) run.kill_now();
    if (run.kill_at || !run.is_late(now)) return;
    run.ended.timed_out = true;
    run.ask_to_end();
  }

  static std::optional<Ended> reap(Run& run) {
    int status = 0;
    rusage usage{};
    if (wait4(run.child.pid, &status, WNOHANG, &usage) != run.child.pid) return std::nullopt;
    run.read_output();
    Ended ended = std::move(run.ended);
    ended.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    ended.exit_code = ended.signal != 0 ? 128 + ended.signal : WEXITSTATUS(status);
    ended.seconds = std::chrono::duration<double>(Clock::now() - run.begin).count();
    ended.error = run.err.message();
    ended.peak_bytes = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
    return ended;
  }

  // Returns when a run has printed something or ended, a signal has arrived, or after a moment, in
  // which deadlines are looked at.
  void wait_for_events() const {
    std::vector<pollfd> files = {{signals_.get(), POLLIN, 0}};
    for (const Run& run : runs_) {
      for (const launch::FileDescriptor* file : {&run.child.out, &run.child.err})
        if (file->get() >= 0) files.push_back({file->get(), POLLIN, 0});
    }
    poll(files.data(), files.size(), 200);
  }

  const std::string program_;
  launch::FileDescriptor signals_;
  sigset_t before_{};
  std::list<Run> runs_;
  int next_ = 0, signal_ = 0;
};

Pool::Pool(std::string program)
    : implementation_(std::make_unique<Implementation>(std::move(program))) {}
Pool::~Pool() = default;
int Pool::start(Task task) { return implementation_->start(std::move(task)); }
std::optional<Ended> Pool::wait() { return implementation_->wait(); }
size_t Pool::running() const { return implementation_->running(); }
int Pool::signal() const { return implementation_->signal(); }

std::string runtime_program() {
  namespace fs = std::filesystem;
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  for (const fs::path& program : {here / "runtime", here / "../../bin/runtime"}) {
    if (::access(program.c_str(), X_OK) == 0) return program.lexically_normal().string();
  }
  throw runtime::ConfigurationError("the program runtime was not found in " + here.string() +
                                    "; install this program beside it");
}

std::string output_of(const std::vector<std::string>& arguments) {
  Pool pool(runtime_program());
  std::string text;
  pool.start({.name = "runtime " + arguments.at(0),
              .arguments = arguments,
              .on_line = [&text](const std::string& line) {
                text += line + "\n";
                return true;
              }});
  const std::optional<Ended> ended = pool.wait();
  if (ended->exit_code == 0) return text;
  throw runtime::Error(static_cast<runtime::ExitCode>(ended->exit_code), ended->error);
}

}  // namespace tools::trials
