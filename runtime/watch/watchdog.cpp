// The watchdog's thread: asks the board and the recorders, and ends the process when the job cannot
// go on.
#include "runtime/watch/watchdog.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <fstream>
#include <string_view>
#include <utility>

#include "plugins/host/descriptor.h"
#include "runtime/watch/ask_pace.h"

namespace runtime::watch {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// The records of more lost ranks than these are not read: that would keep the ranks of a large job
// busy when they are to end.
constexpr size_t kMostRead = 8;
// An alarm that rings is heard at once. It is looked for this often, in case it could not ring.
constexpr milliseconds kLook{1000};
// A note that could not be posted is posted again after this.
constexpr milliseconds kAgain{50};

// Writes all of `text`, also after interrupts. For places where a hanging thread may hold the lock
// of stdio.
void write_stderr(std::string_view text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(STDERR_FILENO, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    done += static_cast<size_t>(n);
  }
}

int64_t to_ns(std::chrono::nanoseconds duration) { return duration.count(); }

}  // namespace

// Talks to the board in a thread of its own, because a store behind a dead link may block for long.
class BoardLink {
 public:
  BoardLink(JobBoard& board, std::function<void()> on_alarm)
      : board_(board), on_alarm_(std::move(on_alarm)), thread_([this] { run(); }) {}
  ~BoardLink() { stop(); }

  // When this returns, the last note has been posted, if the board can be reached.
  void stop() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake();
    if (thread_.joinable()) thread_.join();
  }

  void post(Note note) {
    std::lock_guard lock(mutex_);
    outbox_ = std::move(note);
    wake();
  }

  bool alarm() const { return alarm_.load(std::memory_order_acquire); }

  // Posts this rank's note, then collects those of the other ranks until all or a cause are known
  // or time is up.
  void gather(Note own, Evidence& evidence) {
    std::unique_lock lock(mutex_);
    outbox_ = own;
    gathering_ = true;
    wake();
    AskPace pace(board_.world_size(), steady_clock::now());
    while (!complete() && steady_clock::now() < pace.ends()) {
      changed_.wait_until(lock, pace.ends());
      pace.heard(notes_.size(), steady_clock::now());
    }
    evidence.notes = notes_;
    if (std::erase_if(evidence.notes, [&](const Note& n) { return n.rank == own.rank; }) == 0)
      evidence.board_error = error_.empty() ? "the store of the job did not answer" : error_;
    evidence.notes.push_back(std::move(own));
  }

 private:
  // Whether all ranks have answered, or the cause is known.
  bool complete() const {
    return static_cast<int>(notes_.size()) == board_.world_size() ||
           std::any_of(notes_.begin(), notes_.end(), [](const Note& n) {
             return n.kind == Note::Kind::kOwnError || n.kind == Note::Kind::kLost;
           });
  }

  void run() {
    std::unique_lock lock(mutex_);
    AskIntervals intervals(board_.world_size());
    do {
      const std::optional<Note> note = std::exchange(outbox_, std::nullopt);
      const bool read = gathering_;
      lock.unlock();
      listen();
      exchange(note, read);
      lock.lock();
      if (stop_ || (outbox_ && error_.empty())) continue;
      const milliseconds pause = gathering_ ? intervals.next() : error_.empty() ? kLook : kAgain;
      lock.unlock();
      wait(pause);
      lock.lock();
    } while (!stop_ || (outbox_ && error_.empty()));
  }

  void wake() const { ::eventfd_write(wake_.get(), 1); }

  // Waits until wake() is called, or the bell may ring.
  void wait(milliseconds at_most) const {
    std::vector<pollfd> polled = {{wake_.get(), POLLIN, 0}};
    if (bell_ != nullptr && !alarm())
      for (const int descriptor : bell_->descriptors()) polled.push_back({descriptor, POLLIN, 0});
    ::poll(polled.data(), polled.size(), static_cast<int>(at_most.count()));
    eventfd_t ignored = 0;
    ::eventfd_read(wake_.get(), &ignored);
  }

  void listen() {
    if (alarm()) return;
    try {
      if (bell_ == nullptr) bell_ = board_.alarm_bell();
      if (!bell_->rings()) return;
    } catch (const std::exception&) {
      bell_ = nullptr;  // it is asked for again after a pause
      return;
    }
    alarm_.store(true, std::memory_order_release);
    on_alarm_();
  }

  void exchange(const std::optional<Note>& note, bool read) {
    if (!note && !read) return;
    std::string error;
    std::vector<Note> notes;
    try {
      if (note) board_.post(*note);
      if (read) notes = board_.notes();
    } catch (const std::exception& e) {
      error = e.what();
    }
    std::lock_guard lock(mutex_);
    if (!error.empty() && !outbox_) outbox_ = note;  // post it again later
    if (error.empty() && read) notes_ = std::move(notes);
    error_ = std::move(error);
    changed_.notify_all();
  }

  JobBoard& board_;
  const std::function<void()> on_alarm_;
  std::atomic<bool> alarm_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  const plugins::host::Descriptor wake_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::unique_ptr<Bell> bell_;  // of the thread
  std::optional<Note> outbox_;
  bool gathering_ = false, stop_ = false;
  std::vector<Note> notes_;
  std::string error_;
  std::thread thread_;
};

Watchdog::Watchdog(FlightRecorder& recorder, JobBoard& board, WatchdogOptions options)
    : recorder_(recorder),
      options_(std::move(options)),
      world_size_(board.world_size()),
      link_(std::make_unique<BoardLink>(board, [this] { wake_.notify_all(); })),
      thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  leave("it stopped before its work was done", ExitCode::kPlugin);
  {
    std::lock_guard lock(concluding_);
    over_ = true;
  }
  link_->stop();  // may block; after a failure watch() still ends the process in time
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Watchdog::run(const std::function<void()>& work) {
  try {
    work();
    leave("", ExitCode::kDone);
  } catch (const plugins::host::Error& e) {
    if (e.is_of_communication()) fail(e);
    tell(e);
    throw;
  } catch (const std::exception& e) {
    tell(e);
    throw;
  }
}

void Watchdog::tell(const std::exception& error) {
  const auto* own = dynamic_cast<const Error*>(&error);
  leave(error.what(), own != nullptr ? own->exit_code() : ExitCode::kPlugin);
}

void Watchdog::leave(const std::string& text, ExitCode code) {
  std::lock_guard lock(concluding_);
  if (over_ || done_) return;
  const bool done = code == ExitCode::kDone;
  (done ? done_ : over_) = true;
  link_->post({.rank = recorder_.rank(),
               .kind = done ? Note::Kind::kDone : Note::Kind::kOwnError,
               .text = text,
               .channels = recorder_.channels(),
               .exit_code = static_cast<int>(code)});
  if (!done) end_at(kOwnErrorGrace, text, code);
}

// If the watchdog is to end the process, it waits at least kGrace from the end of the shelter, so
// that the rank's thread can unwind its stack.
void Watchdog::leave_shelter() {
  std::lock_guard lock(mutex_);
  sheltered_ = false;
  if (end_ns_ != 0) end_ns_ = std::max(end_ns_, monotonic_ns() + to_ns(kGrace));
}

void Watchdog::give_up(const std::string& error) {
  leave(error, ExitCode::kData);
  // The rank's thread may be blocked in a system call, such as a write to a disk that does not
  // answer, and then cannot unwind. So the watchdog ends the process after kGrace.
  end_at(kGrace, error, ExitCode::kData);
  sheltered_ = false;
}

void Watchdog::attend(std::function<void()> look) {
  const std::lock_guard lock(looking_);
  look_ = std::move(look);
}

std::optional<Incident> Watchdog::look() {
  const std::lock_guard lock(looking_);
  try {
    if (look_) look_();
  } catch (const plugins::host::Error& error) {
    Incident incident = pending();
    incident.error = error.what();
    if (error.code() == RT_ERROR_COMMUNICATION) incident.broken = error.rank();
    return incident;
  }
  return late();
}

void Watchdog::fail(const plugins::host::Error& error) {
  fail(error.what(), error.code() == RT_ERROR_COMMUNICATION ? error.rank() : -1);
}

void Watchdog::fail(const std::string& error, int broken) {
  Incident incident = pending();
  incident.error = error;
  incident.broken = broken;
  // A communicator's own deadline may come shortly before this one and means the same.
  const CollectiveRecord r = recorder_.pending(true);
  const int64_t timeout_ns = to_ns(options_.timeout);
  if (r.sequence != 0 && monotonic_ns() - r.start_ns > timeout_ns - timeout_ns / 10)
    incident.late_after_s = 1e-9 * static_cast<double>(timeout_ns);
  conclude(incident);
  check();
  throw CommunicationError(error);
}

Watchdog::Phase::Phase(Watchdog& watchdog, const char* what, std::chrono::nanoseconds timeout)
    : watchdog_(watchdog) {
  watchdog.phase_timeout_ns_ = to_ns(timeout);
  watchdog.phase_start_ns_ = monotonic_ns();
  watchdog.phase_ = what;
}

Watchdog::Phase::~Phase() { watchdog_.phase_ = nullptr; }

Incident Watchdog::pending() const {
  if (const char* what = phase_) return {.pending = what};
  CollectiveRecord r = recorder_.pending(true);
  if (r.sequence == 0) r = recorder_.pending(false);
  if (r.sequence == 0) return {};
  return {.pending = describe(r, options_.groups, recorder_.rank())};
}

std::optional<Incident> Watchdog::late() const {
  const int64_t now = monotonic_ns();
  int64_t timeout_ns = 0;
  if (phase_ != nullptr) {
    timeout_ns = phase_timeout_ns_;
    if (now - phase_start_ns_ < timeout_ns) return std::nullopt;
  } else {
    // While the rank computes, it cannot see that a collective has completed. Once it waits, two
    // slices are enough to see that.
    const CollectiveRecord r = recorder_.pending(true);
    timeout_ns = to_ns(options_.timeout);
    if (r.sequence == 0 || now - r.start_ns < timeout_ns || now - r.wait_ns < to_ns(2 * kSlice))
      return std::nullopt;
  }
  Incident incident = pending();
  incident.late_after_s = 1e-9 * static_cast<double>(timeout_ns);
  return incident;
}

void Watchdog::conclude(const Incident& incident) {
  std::lock_guard lock(concluding_);
  if (over_) return;
  over_ = true;
  Evidence evidence{.self = recorder_.rank(), .world_size = world_size_, .groups = options_.groups};
  message_ = explain(incident, evidence);
  failed_.store(true, std::memory_order_release);
  // The exit code of a rank with an error of its own is the job's. If ranks are threads, this is
  // the process of that rank too.
  auto code = ExitCode::kCommunication;
  for (const Note& n : evidence.notes) {
    if (n.kind == Note::Kind::kOwnError) code = static_cast<ExitCode>(n.exit_code);
  }
  end_at(kGrace, message_, code);
}

// Returns the error message for the incident, after asking the other ranks for their notes. If
// memory is too short for all of it, the message ends early.
std::string Watchdog::explain(const Incident& incident, Evidence& evidence) const {
  std::string text;
  try {
    link_->gather({.rank = recorder_.rank(),
                   .kind = incident.kind(),
                   .text = incident.text(),
                   .channels = recorder_.channels(),
                   .silent = silent_,
                   .broken = incident.broken},
                  evidence);
    evidence.now_ns = monotonic_ns();
    evidence.names = options_.names;
    read_lost_ranks(evidence);
    text = diagnose(incident, evidence);
    return text + write_dumps(evidence);
  } catch (const std::exception& error) {
    if (text.empty()) text = incident.text();
    return text + "; more could not be found out: " + error.what();
  }
}

// Reads the recorders of ranks that cannot speak for themselves.
void Watchdog::read_lost_ranks(Evidence& evidence) const {
  if (options_.job_folder.empty()) return;
  std::vector<bool> speaks(static_cast<size_t>(world_size_));
  for (const Note& n : evidence.notes) speaks[n.rank] = n.kind != Note::Kind::kLost;
  for (int rank = 0; rank < world_size_ && evidence.recorders.size() < kMostRead; ++rank) {
    if (speaks[rank]) continue;
    if (auto records = read_recorder(options_.job_folder, rank))
      evidence.recorders[rank] = std::move(*records);
  }
}

// Writes this rank's collectives; the first surviving rank also writes those of ranks that cannot.
// Returns the names of the files, for the message.
std::string Watchdog::write_dumps(const Evidence& e) const {
  std::map<int, RankRecords> dumps;
  const auto leads =
      std::min_element(e.notes.begin(), e.notes.end(), [](const Note& a, const Note& b) {
        return std::pair(a.kind < Note::Kind::kFailed, a.rank) <
               std::pair(b.kind < Note::Kind::kFailed, b.rank);
      });
  if (leads->rank == e.self) dumps = e.recorders;
  for (const Note& n : e.notes) {
    if (n.kind != Note::Kind::kLost) dumps.erase(n.rank);
  }
  dumps[e.self] = recorder_.records();
  std::string where;
  for (const auto& [rank, records] : dumps) {
    const std::string text = dump(records, e.now_ns, e.groups);
    const auto file = options_.run_folder / ("rank-" + std::to_string(rank) + "-collectives.txt");
    if (!options_.run_folder.empty() && (std::ofstream(file) << text).flush())
      where += (where.empty() ? "; last collectives: " : ", ") + file.string();
    else
      write_stderr(text);
  }
  return where;
}

void Watchdog::end_at(milliseconds grace, const std::string& message, ExitCode code) {
  std::lock_guard lock(mutex_);
  end_ns_ = monotonic_ns() + to_ns(grace);
  last_words_ = "error: " + message + "\n";
  exit_code_ = code;
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    wake_.wait_for(lock, kSlice, [this] { return stop_ || (end_ns_ == 0 && link_->alarm()); });
    if (stop_) return;
    if (end_ns_ != 0 && monotonic_ns() >= end_ns_ && !sheltered_) {
      write_stderr(last_words_);
      ::_exit(static_cast<int>(exit_code_));
    }
    if (end_ns_ != 0) continue;
    lock.unlock();
    look_around();
    lock.lock();
  }
}

// No exception may leave the watchdog's thread, not even std::bad_alloc: the process would end with
// SIGABRT, or the rank would no longer be watched.
void Watchdog::look_around() {
  try {
    if (const auto incident = look())
      conclude(*incident);
    else if (link_->alarm())
      conclude(pending());
  } catch (const std::exception& error) {
    // While the rank saves its data, an error such as std::bad_alloc does not end the process; the
    // next poll may find enough memory.
    if (sheltered_) return;
    char text[300];
    std::snprintf(text, sizeof text, "error: rank %d cannot watch over its job any more: %.200s\n",
                  recorder_.rank(), error.what());
    write_stderr(text);
    ::_exit(static_cast<int>(ExitCode::kPlugin));
  }
}

}  // namespace runtime::watch
