// The loop over signals, output and deaths of ranks, and the cause that it concludes.
#include "runtime/launch/supervisor.h"

#include <errno.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "runtime/error.h"
#include "runtime/launch/line_output.h"
#include "runtime/launch/orders.h"
#include "runtime/launch/process_tree.h"

namespace runtime::launch {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kCodeOfLostRank = static_cast<int>(ExitCode::kCommunication);
// The cause of the end of a job of so many ranks is said once more, as the last line.
constexpr size_t kManyRanks = 9;
constexpr int kElsewhere = -2;        // another launcher has said that one of its ranks is lost
constexpr int kLostConnection = 255;  // as ssh ends
constexpr int kStops[] = {SIGINT, SIGTERM, SIGHUP, kAfterCheckpoint};

// How a process has ended: with an exit code, or by a signal that killed it.
struct Status {
  bool killed = false;
  int value = 0;
  bool lost_own_rank = false;  // a launcher elsewhere has ended with kLostOwnRank

  explicit Status(int status)
      : killed(WIFSIGNALED(status)), value(killed ? WTERMSIG(status) : WEXITSTATUS(status)) {}
  int exit_code() const { return killed || lost_own_rank ? kCodeOfLostRank : value; }
  // Exit code 4 means that the rank has lost another one; any other failure is nearer to the cause.
  static Status of_consequence() { return Status(W_EXITCODE(kCodeOfLostRank, 0)); }
  bool is_consequence() const { return !killed && value == kCodeOfLostRank; }
  std::string text() const {
    if (lost_own_rank) return "has lost one of its ranks";
    if (!killed) return "ended with exit code " + std::to_string(value);
    const char* name = sigabbrev_np(value);
    return "was killed by signal " + std::to_string(value) +
           (name == nullptr ? "" : " (SIG" + std::string(name) + ")");
  }
};

struct Stream {
  FileDescriptor fd;
  LineCutter lines;
};

class Supervisor {
 public:
  Supervisor(const Signals& signals, const Supervision& supervision)
      : signals_(signals), options_(supervision), orders_(supervision.orders) {
    if (options_.should_regroup) regroup_.next_look = Clock::now() + options_.regroup_interval;
  }
  Ending run(const std::vector<ChildSpec>& specs);

 private:
  // kFailed: one process has failed, and the others have time to end. kEnding: the others are being
  // ended, and their exit codes are ignored. kOver: output that nobody has read is dropped too.
  enum class Phase { kRunning, kFailed, kEnding, kOver };

  void add(const ChildSpec& spec);
  void step();
  void read_some(Stream& stream);
  void read_orders();
  void obey(const Order& order);
  void on_signal(int signal);
  void on_stop(int signal);
  void send_to_ranks(int signal);
  void look_whether_to_regroup();
  void on_deaths();
  void judge(const Child& child, Status status);
  void fail();
  void say_to_launchers(const Order& order) const;
  void end_stopped();
  void look_for_stragglers();
  void on_deadline();
  void finish_output();
  void end_children(Phase phase, std::optional<int> signal);
  bool still_saves() const;
  std::string running_names() const;
  int timeout_ms() const;

  const Signals& signals_;
  const Supervision& options_;
  Sink out_{STDOUT_FILENO}, err_{STDERR_FILENO};
  Orders orders_;
  ProcessTree tree_;
  std::vector<Child> children_;  // that are still running
  std::vector<Stream> streams_;
  Phase phase_ = Phase::kRunning;
  std::optional<Clock::time_point> deadline_;
  struct {
    std::optional<Clock::time_point> next_look;  // for should_regroup()
    bool asked = false;                          // the ranks were asked to end after a checkpoint
  } regroup_;
  Clock::time_point failed_at_;                 // valid from kFailed on
  std::optional<Clock::time_point> first_end_;  // when the first process ended with 0
  std::optional<Status> cause_;
  std::string cause_text_;      // "rank 2 (pid 123) was killed by signal 9 (SIGKILL)"
  int lost_ = -1;               // Ending::lost, or kElsewhere
  bool found_stopped_ = false;  // a rank for which others have probably waited in vain was stopped
  int asked_ = 0;               // the first signal that the user has sent
  int stops_ = 0;               // number of such signals
  int stopped_ = 0;             // 128 + signal once a process has ended because it was told to stop
  std::array<char, 64 * 1024> buffer_;
};

void Supervisor::add(const ChildSpec& spec) {
  const auto log = spec.log.empty() ? nullptr : std::make_shared<LineLog>(spec.log);
  Child child = start(spec);
  if (child.out.get() >= 0)
    streams_.push_back({std::move(child.out), LineCutter(spec.out_prefix, out_, log)});
  if (child.err.get() >= 0)
    streams_.push_back({std::move(child.err), LineCutter(spec.err_prefix, err_, log)});
  children_.push_back(std::move(child));
}

int Supervisor::timeout_ms() const {
  if (!deadline_ && !regroup_.next_look) return -1;
  const auto next = std::min(deadline_.value_or(Clock::time_point::max()),
                             regroup_.next_look.value_or(Clock::time_point::max()));
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
  return static_cast<int>(std::max<int64_t>(left.count(), 0));
}

// Waits until something happens, and handles it.
void Supervisor::step() {
  std::vector<pollfd> polled = {{signals_.fd(), POLLIN, 0},
                                {out_.waiting() ? out_.fd() : -1, POLLOUT, 0},
                                {err_.waiting() ? err_.fd() : -1, POLLOUT, 0},
                                {orders_.fd(), POLLIN, 0}};
  const size_t first = polled.size();
  for (const Stream& stream : streams_)
    polled.push_back({stream.lines.sink().full() ? -1 : stream.fd.get(), POLLIN, 0});
  if (poll(polled.data(), polled.size(), timeout_ms()) < 0 && errno != EINTR)
    throw CommunicationError(std::string("waiting for the ranks: poll: ") + std::strerror(errno));
  if (polled[1].revents != 0) out_.write_some();
  if (polled[2].revents != 0) err_.write_some();
  if (polled[3].revents != 0) read_orders();
  for (size_t i = 0; i < streams_.size(); ++i)
    if (polled[first + i].revents != 0) read_some(streams_[i]);
  while (const int signal = signals_.take()) on_signal(signal);
  if (regroup_.next_look && Clock::now() >= *regroup_.next_look) look_whether_to_regroup();
  if (deadline_ && Clock::now() >= *deadline_) on_deadline();
}

void Supervisor::look_whether_to_regroup() {
  regroup_.next_look.reset();
  if (phase_ != Phase::kRunning || first_end_ || asked_ != 0) return;
  regroup_.asked = options_.should_regroup();
  if (regroup_.asked) {
    send_to_ranks(kAfterCheckpoint);
  } else {
    regroup_.next_look = Clock::now() + options_.regroup_interval;
  }
}

void Supervisor::send_to_ranks(int signal) {
  const bool elsewhere = std::ranges::any_of(children_, &Child::leads_elsewhere);
  if (!elsewhere && tree_.send_to_ranks(signal)) return;
  for (const Child& child : children_) launch::send(child, signal);
}

// Forwards output, and closes the stream at its end. If the launcher's own output fails, what ranks
// write is dropped, and the ranks go on.
void Supervisor::read_some(Stream& stream) {
  const ssize_t bytes = read(stream.fd.get(), buffer_.data(), buffer_.size());
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (bytes > 0) return stream.lines.add({buffer_.data(), static_cast<size_t>(bytes)});
  stream.lines.finish();
  stream.fd.close();
}

// The end of the orders is SIGHUP, as that of a terminal. Ranks that were to stop before have had
// their time.
void Supervisor::read_orders() {
  for (const Order& order : orders_.read()) obey(order);
  if (orders_.fd() >= 0) return;
  if (stops_ == 0) return on_stop(SIGHUP);
  fail();
}

void Supervisor::obey(const Order& order) {
  if (order.kind != Order::Kind::kSignal) {
    if (lost_ == -1) lost_ = kElsewhere;
    if (phase_ != Phase::kRunning) return;
    if (options_.on_loss)
      options_.on_loss(order.number, order.text, order.kind == Order::Kind::kTold);
    cause_ = Status::of_consequence();
    cause_text_ = order.text;
    fail();
  } else if (order.number == SIGKILL) {
    if (++stops_ == 1) asked_ = SIGTERM;
    on_stop(SIGTERM);
  } else if (order.number == kQuestion ||
             std::ranges::find(kStops, order.number) != std::end(kStops)) {
    on_signal(order.number);
  }
}

// To those on other machines.
void Supervisor::say_to_launchers(const Order& order) const {
  for (const Child& child : children_)
    if (child.leads_elsewhere()) say(child, line_of(order));
}

void Supervisor::on_signal(int signal) {
  if (signal == SIGCHLD) return on_deaths();
  if (signal == kQuestion) return send_to_ranks(signal);
  if (signal == kAfterCheckpoint) {
    if (asked_ == 0) asked_ = signal;
    return send_to_ranks(signal);
  }
  if (signal != SIGTSTP) return on_stop(signal);
  tree_.send(SIGSTOP);
  raise(SIGSTOP);
  tree_.send(SIGCONT);
}

// The first signal lets the ranks save, the second one ends them.
void Supervisor::on_stop(int signal) {
  if (++stops_ == 1) {
    asked_ = signal;
    send_to_ranks(signal);
  } else {
    stopped_ = 128 + asked_;
    end_children(Phase::kEnding, std::nullopt);
  }
}

void Supervisor::on_deaths() {
  std::vector<std::pair<Child, Status>> dead;
  for (size_t i = 0; i < children_.size();) {
    int status = 0;
    if (waitpid(children_[i].pid, &status, WNOHANG) != children_[i].pid) {
      ++i;
      continue;
    }
    dead.emplace_back(std::move(children_[i]), Status(status));
    children_.erase(children_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (const auto& [child, status] : dead) judge(child, status);
  end_stopped();
  if (dead.empty() || phase_ != Phase::kRunning || first_end_) return;
  first_end_ = Clock::now();
  deadline_ = *first_end_ + options_.patience;
}

void Supervisor::fail() {
  if (phase_ != Phase::kRunning) return;
  phase_ = Phase::kFailed;
  failed_at_ = Clock::now();
  deadline_ = failed_at_ + kGrace;
}

void Supervisor::judge(const Child& child, Status status) {
  if (phase_ == Phase::kEnding || child.given_up || (!status.killed && status.value == 0)) return;
  if (status.killed ? status.value == asked_ : is_stop_code(status.value)) {
    stopped_ = status.killed ? 128 + status.value : status.value;
    // The rank had not yet begun to handle signals, and the other ranks would wait for it.
    if (status.killed && options_.on_loss && child.rank >= 0)
      options_.on_loss(child.rank, "it " + status.text(), false);
    return;
  }
  // A machine may lose a rank because another machine is gone, which is known last.
  const bool gone = child.leads_elsewhere() && (status.killed || status.value == kLostConnection);
  const bool first = cause_ && cause_->lost_own_rank && gone;
  if (cause_ && !first && (!cause_->is_consequence() || status.is_consequence())) return;
  status.lost_own_rank = child.leads_elsewhere() && !status.killed && status.value == kLostOwnRank;
  const std::string text = child.name + " (pid " + std::to_string(child.pid) + ") " + status.text();
  err_.add("error: " + text + "\n");
  if (asked_ != 0 && child.leads_elsewhere() && status.exit_code() == kLostConnection) {
    stopped_ = 128 + asked_;  // the ranks there save and end, as they were told before or are now
    return;
  }
  cause_ = status;
  cause_text_ = text;
  if (!status.is_consequence()) lost_ = child.rank;
  fail();
  end_stopped();
  // That a rank of a machine is lost does not say which.
  const bool gave_up = status.is_consequence() || status.lost_own_rank;
  say_to_launchers({gave_up ? Order::Kind::kTold : Order::Kind::kLost, child.rank,
                    child.name + " " + status.text()});
  if (options_.on_loss && child.rank >= 0 && !(gave_up && found_stopped_))
    options_.on_loss(child.rank, "it " + status.text(), gave_up);
}

// Kills the ranks that are stopped, once others have failed or have ended because they were told
// to. A stopped rank cannot notice either, and it is probably the one that the others have waited
// for.
void Supervisor::end_stopped() {
  if (phase_ != Phase::kFailed && stopped_ == 0) return;
  for (Child& child : children_) {
    if (child.rank < 0 || child.given_up || !is_stopped(child.pid)) continue;
    child.given_up = true;
    const bool first = !std::exchange(found_stopped_, true);
    if (lost_ < 0) lost_ = child.rank;
    const std::string text =
        child.name + " (pid " + std::to_string(child.pid) + ") is stopped, as by SIGSTOP";
    if (first && (cause_text_.empty() || cause_->is_consequence())) cause_text_ = text;
    err_.add("error: " + text + ": killed\n");
    if (options_.on_loss) options_.on_loss(child.rank, "it was stopped, as by SIGSTOP", false);
    kill(child.pid, SIGKILL);
  }
}

// Sends `signal`, or to each child the signal that ends it at once.
void Supervisor::end_children(Phase phase, std::optional<int> signal) {
  phase_ = phase;
  deadline_ = Clock::now() + kTermination;
  // The others have noticed that a rank is gone, and ended: it is the one that still runs.
  const bool all_here = options_.orders < 0;
  if (lost_ == -1 && cause_ && all_here && children_.size() == 1) lost_ = children_[0].rank;
  for (const Child& child : children_)
    launch::send(child, signal.value_or(child.leads_elsewhere() ? SIGKILL : child.end_signal));
}

std::string Supervisor::running_names() const {
  std::string names;
  for (const Child& child : children_) names += (names.empty() ? "" : ", ") + child.name;
  return names;
}

// Called some time after a rank has ended with 0. A rank that is stopped cannot follow, and a rank
// that hangs in a library at its end would keep the launcher forever.
void Supervisor::look_for_stragglers() {
  const auto stopped = [](const Child& c) { return c.rank >= 0 && is_stopped(c.pid); };
  const auto now = Clock::now();
  const auto limit = options_.ending_limit;
  const bool late = now - *first_end_ >= limit;
  deadline_ = now + std::min(options_.patience, limit);
  if (!late && std::none_of(children_.begin(), children_.end(), stopped)) return;
  if (late)
    err_.add("error: " + running_names() + " has not ended " +
             std::to_string(std::chrono::round<std::chrono::seconds>(limit).count()) +
             " s after another rank has ended: it hangs, and is ended\n");
  if (late) cause_text_ = running_names() + " did not end";
  cause_ = Status(SIGSTOP);
  fail();
  say_to_launchers({Order::Kind::kTold, children_[0].rank, running_names() + " did not end"});
  end_stopped();
}

// Launchers on other machines end their ranks themselves, and wait for those that save.
bool Supervisor::still_saves() const {
  if (Clock::now() - failed_at_ >= options_.saving) return false;
  return std::ranges::any_of(children_, &Child::leads_elsewhere) ||
         (options_.is_saving && options_.is_saving());
}

void Supervisor::on_deadline() {
  deadline_.reset();
  if (children_.empty()) {
    phase_ = Phase::kOver;
  } else if (phase_ == Phase::kRunning) {
    look_for_stragglers();
  } else if (phase_ == Phase::kFailed && still_saves()) {
    deadline_ = Clock::now() + kGrace;
  } else if (phase_ == Phase::kFailed) {
    end_children(Phase::kEnding, SIGTERM);
  } else {
    err_.add("error: " + running_names() + " did not end after SIGTERM: killed\n");
    tree_.end();
    children_.clear();
  }
}

// Called when all processes have ended. Forwards what is still in their pipes and waits until it is
// written. A reader that does not read is given up when the user sends a signal, or kGrace after an
// earlier signal.
void Supervisor::finish_output() {
  for (Stream& stream : streams_) {
    ssize_t bytes = 0;
    while (stream.fd.get() >= 0 &&
           (bytes = read(stream.fd.get(), buffer_.data(), buffer_.size())) > 0)
      stream.lines.add({buffer_.data(), static_cast<size_t>(bytes)});
    stream.lines.finish();
  }
  streams_.clear();
  const int stops = stops_;
  if (asked_ != 0) deadline_ = Clock::now() + kGrace;
  while ((out_.waiting() || err_.waiting()) && stops_ == stops && phase_ != Phase::kOver) step();
}

Ending Supervisor::run(const std::vector<ChildSpec>& specs) {
  for (const ChildSpec& spec : specs) add(spec);
  while (!children_.empty()) step();
  deadline_.reset();
  tree_.end();
  finish_output();
  // Ranks that were told to stop, and then lost a rank that had ended already, have done as they
  // were told.
  const bool only_stopped = !cause_ || (stopped_ != 0 && cause_->is_consequence());
  // What many ranks say in the meantime hides the sentence that counts.
  if (!only_stopped && specs.size() >= kManyRanks) {
    err_.add("error: the job has ended because " + cause_text_ + "\n");
    finish_output();
  }
  Ending ending;
  ending.exit_code = only_stopped ? stopped_ : cause_->exit_code();
  ending.asked = asked_ != 0;
  ending.told_to_stop = asked_ != 0 && asked_ != kAfterCheckpoint;
  ending.regroups = regroup_.asked && !ending.asked && ending.exit_code == kEndedAfterCheckpoint;
  ending.lost = std::max(lost_, -1);
  ending.output_error = out_.error();
  return ending;
}

}  // namespace

bool is_stop_code(int exit_code) {
  return std::ranges::find(kStops, exit_code - 128) != std::end(kStops);
}

Signals::Signals() {
  // A parent process may have set SIGCHLD to be ignored, and waiting for children would then fail.
  signal(SIGCHLD, SIG_DFL);
  sigset_t read, blocked;
  sigemptyset(&read);
  sigaddset(&read, SIGCHLD);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, kAfterCheckpoint, kQuestion, SIGTSTP}) {
    struct sigaction action;
    if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_IGN)
      sigaddset(&read, signal);
  }
  blocked = read;
  sigaddset(&blocked, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  fd_ = FileDescriptor(signalfd(-1, &read, SFD_CLOEXEC | SFD_NONBLOCK));
  if (fd_.get() < 0)
    throw CommunicationError(std::string("cannot start ranks: signalfd: ") + std::strerror(errno));
}

Signals::~Signals() {
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  const timespec no_wait{};
  while (sigtimedwait(&pipe, nullptr, &no_wait) > 0) {
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int Signals::take() const {
  signalfd_siginfo info;
  return read(fd_.get(), &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo)
                                                              : 0;
}

Ending supervise(const std::vector<ChildSpec>& specs, const Signals& signals,
                 const Supervision& supervision) {
  return Supervisor(signals, supervision).run(specs);
}

}  // namespace runtime::launch
