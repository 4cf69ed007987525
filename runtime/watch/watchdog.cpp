// The watchdog's thread: asks the board and the recorders, and ends the process when the job cannot
// go on.
#include "runtime/watch/watchdog.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <fstream>
#include <string_view>
#include <utility>

#include "plugins/host/text.h"
#include "runtime/watch/ask_pace.h"
#include "runtime/watch/board_link.h"
#include "runtime/watch/collectives_file.h"
#include "runtime/watch/inquiry.h"

namespace runtime::watch {
namespace {

using plugins::host::seconds_text;
using std::chrono::milliseconds;

// The records of more lost ranks than these are not read: that would keep the ranks of a large job
// busy when they are to end.
constexpr size_t kMostRead = 8;

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

Watchdog::Watchdog(FlightRecorder& recorder, JobBoard& board, WatchdogOptions options)
    : recorder_(recorder),
      options_(std::move(options)),
      world_size_(board.world_size()),
      link_(std::make_unique<BoardLink>(board)),
      inquiry_(options_.hang.count() > 0
                   ? std::make_unique<Inquiry>(
                         board, recorder.rank(),
                         Inquiry::Options{
                             .first = options_.hang,
                             .longest = options_.timeout / 2,
                             .late = [this](std::chrono::nanoseconds time) { return waits(time); },
                             .find_out = [this](BoardLink& link,
                                                const Incident& i) { return ask(link, i); },
                             .say = [this](const std::string& text) { warn(text); }})
                   : nullptr),
      thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  leave("it stopped before its work was done", ExitCode::kPlugin);
  {
    std::lock_guard lock(concluding_);
    over_ = true;
  }
  inquiry_ = nullptr;
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
    try {
      work();
      leave("", ExitCode::kDone);
    } catch (const plugins::host::Error& e) {
      if (e.is_of_communication()) fail(e);
      throw;
    }
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
  if (over_) say_what_was_found(text);
  if (over_ || done_) return;
  const bool done = code == ExitCode::kDone;
  (done ? done_ : over_) = true;
  link_->post({.rank = recorder_.rank(),
               .kind = done ? Note::Kind::kDone : Note::Kind::kOwnError,
               .text = text,
               .channels = recorder_.channels(),
               .exit_code = static_cast<int>(code)});
  if (!done) end_at(kOwnErrorGrace, "error: " + text + "\n", code);
}

// This rank has found out why the job cannot go on, and ends with another error, or with none: then
// nobody else says it.
void Watchdog::say_what_was_found(const std::string& instead) {
  if (!failed_ || end_.told || done_ || std::exchange(end_.said, true)) return;
  if (end_.message != instead) write_stderr("error: " + end_.message + "\n");
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
  end_at(kGrace, "error: " + error + "\n", ExitCode::kData);
  sheltered_ = false;
}

void Watchdog::attend(std::function<void()> look) {
  const std::lock_guard lock(attended_.mutex);
  attended_.look = std::move(look);
}

std::optional<Incident> Watchdog::look() {
  const std::lock_guard lock(attended_.mutex);
  try {
    if (attended_.look) attended_.look();
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
  watchdog.phase_.timeout_ns = to_ns(timeout);
  watchdog.phase_.start_ns = monotonic_ns();
  watchdog.phase_.what = what;
}

Watchdog::Phase::~Phase() { watchdog_.phase_.what = nullptr; }

Incident Watchdog::pending() const {
  if (const char* what = phase_.what) return {.pending = what};
  CollectiveRecord r = recorder_.pending(true);
  if (r.sequence == 0) r = recorder_.pending(false);
  if (r.sequence == 0) return {};
  return {.pending = describe(r, options_.groups, recorder_.rank())};
}

// A rank in a phase counts as not waiting, because others may save or join for long.
std::optional<Incident> Watchdog::waits(std::chrono::nanoseconds at_least) const {
  const CollectiveRecord r = recorder_.pending(true);
  if (phase_.what != nullptr || r.sequence == 0 || monotonic_ns() - r.wait_ns < to_ns(at_least))
    return std::nullopt;
  return Incident{.pending = describe(r, options_.groups, recorder_.rank()),
                  .late_after_s = 1e-9 * static_cast<double>(to_ns(at_least))};
}

std::optional<Incident> Watchdog::late() const {
  const int64_t now = monotonic_ns();
  int64_t timeout_ns = 0;
  if (phase_.what != nullptr) {
    timeout_ns = phase_.timeout_ns;
    if (now - phase_.start_ns < timeout_ns) return std::nullopt;
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
  if (done_) {
    // Others say why they cannot go on. It has told them that it is done, and only has to end.
    end_.message = "this rank was done, and did not end when another rank had failed";
    failed_.store(true, std::memory_order_release);
    const milliseconds others = longest_wait(world_size_) + answer_time(world_size_);
    return end_at(others + kGrace, "error: " + end_.message + "\n", ExitCode::kCommunication);
  }
  const Verdict verdict = find_out(incident);
  end_.told = options_.told == Told::kNothing && verdict.rank != recorder_.rank();
  end_.message = verdict.text;
  failed_.store(true, std::memory_order_release);
  // The exit code of a rank with an error of its own is the job's. If ranks are threads, this is
  // the process of that rank too.
  end_at(kGrace, end_.told ? "" : "error: " + end_.message + "\n",
         static_cast<ExitCode>(verdict.exit_code));
}

// Returns what this rank is to say about the incident. If memory is too short for all of it, the
// message ends early.
Verdict Watchdog::find_out(const Incident& incident) {
  Verdict verdict{.rank = recorder_.rank()};
  try {
    verdict = ask(*link_, incident);
    const bool own = verdict.rank == recorder_.rank();
    if (!own && options_.told == Told::kBriefly) verdict.text = in_brief(verdict);
    const std::string where = write_dumps(verdict);
    if (own || options_.told != Told::kNothing) verdict.text += where;
  } catch (const std::exception& error) {
    if (verdict.text.empty()) verdict.text = incident.text();
    verdict.text += std::string("; more could not be found out: ") + error.what();
  }
  return verdict;
}

void Watchdog::warn(const std::string& text) const {
  if (failed_) return;
  write_stderr("warning: the ranks wait: " + text + "; the job ends if that lasts " +
               seconds_text(options_.timeout) + " (comm.timeout_s)\n");
}

// Posts this rank's note through `link`, and returns the verdict that counts.
Verdict Watchdog::ask(BoardLink& link, const Incident& incident) const {
  Evidence evidence{.self = recorder_.rank(), .world_size = world_size_, .groups = options_.groups};
  const auto others = link.gather({.rank = recorder_.rank(),
                                   .kind = incident.kind(),
                                   .text = incident.text(),
                                   .channels = recorder_.channels(),
                                   .silent = silent_,
                                   .broken = incident.broken},
                                  evidence);
  if (others) return *others;
  return link.agree(judge(incident, evidence), patience_for(evidence));
}

Verdict Watchdog::judge(const Incident& incident, Evidence& evidence) const {
  Verdict verdict{.rank = evidence.self};
  evidence.now_ns = monotonic_ns();
  evidence.names = options_.names;
  std::vector<bool> speaks(static_cast<size_t>(world_size_));
  for (const Note& n : evidence.notes) {
    speaks[n.rank] = n.kind != Note::Kind::kLost;
    if (n.kind == Note::Kind::kOwnError) verdict.exit_code = n.exit_code;
  }
  for (int rank = 0; rank < world_size_; ++rank)
    if (!speaks[rank]) verdict.lost.push_back(rank);
  evidence.recorders = recorders_of(verdict.lost);
  verdict.text = diagnose(incident, evidence);
  return verdict;
}

// If a rank with a lower number asks all others too, its verdict comes first.
milliseconds Watchdog::patience_for(const Evidence& evidence) const {
  const bool leads = std::ranges::none_of(evidence.notes, [&](const Note& n) {
    return n.rank < evidence.self && asks(n.rank, world_size_) && n.kind > Note::Kind::kLost;
  });
  return leads ? milliseconds(0) : answer_time(world_size_);
}

// "rank 3 of 8 is lost: it was killed by signal 9 (SIGKILL); rank 0 says more"
std::string Watchdog::in_brief(const Verdict& verdict) const {
  return verdict.text.substr(0, verdict.text.find(';')) + "; " + options_.names.of(verdict.rank) +
         " says more";
}

// Returns the recorders of those of the ranks that were on this machine. They cannot speak for
// themselves.
std::map<int, RankRecords> Watchdog::recorders_of(const std::vector<int>& ranks) const {
  std::map<int, RankRecords> found;
  if (options_.job_folder.empty()) return found;
  for (const int rank : ranks) {
    if (found.size() == kMostRead) break;
    if (auto records = read_recorder(options_.job_folder, rank)) found[rank] = std::move(*records);
  }
  return found;
}

// Writes this rank's collectives. The first surviving rank of a machine also writes those of ranks
// that cannot, as does the rank whose verdict counts. Returns the names of the files, for the
// message.
std::string Watchdog::write_dumps(const Verdict& verdict) const {
  const int self = recorder_.rank();
  const auto lives_here = [&](int rank) {
    return has_recorder(options_.job_folder, rank) &&
           std::ranges::find(verdict.lost, rank) == verdict.lost.end();
  };
  bool is_first = true;
  for (int rank = 0; rank < self; ++rank) is_first = is_first && !lives_here(rank);
  std::map<int, RankRecords> dumps;
  if (verdict.rank == self || is_first) dumps = recorders_of(verdict.lost);
  dumps[self] = recorder_.records();
  std::string where;
  for (const auto& [rank, records] : dumps) {
    const std::string text = dump(records, monotonic_ns(), options_.groups);
    const auto file = options_.run_folder / ("rank-" + std::to_string(rank) + "-collectives.txt");
    if (options_.run_folder.empty() || !(std::ofstream(file) << text).flush()) {
      write_stderr(text);
      continue;
    }
    where += (where.empty() ? "; last collectives: " : ", ") + file.string();
    CollectivesFile json = file_of(records, options_.groups, world_size_);
    json.lost = rank != self;
    std::ofstream(std::filesystem::path(file).replace_extension("json")) << to_json(json);
  }
  return where;
}

void Watchdog::at_step(int64_t step, std::shared_ptr<const Plan> plan) {
  recorder_.at_step(step, std::move(plan));
}

void Watchdog::end_at(milliseconds grace, const std::string& words, ExitCode code) {
  std::lock_guard lock(mutex_);
  end_ns_ = monotonic_ns() + to_ns(grace);
  last_words_ = words;
  exit_code_ = code;
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    wake_.wait_for(lock, kSlice, [this] { return stop_; });
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

// Writes once, however many questions have come since the last look.
void Watchdog::answer_questions() {
  const int asked = options_.questions ? options_.questions() : 0;
  if (std::exchange(answered_, asked) == asked) return;
  try {
    write_dumps({.rank = recorder_.rank()});
  } catch (const std::exception& error) {
    write_stderr(
        "warning: a question (SIGUSR2) could not be answered: " + std::string(error.what()) + "\n");
  }
}

// An alarm counts from the next slice on: this rank may be about to end with an error of its own,
// which has aborted the communicator of the rank that has raised the alarm.
// No exception may leave the watchdog's thread, not even std::bad_alloc: the process would end with
// SIGABRT, or the rank would no longer be watched.
void Watchdog::look_around() {
  try {
    answer_questions();
    if (const auto incident = look())
      conclude(*incident);
    else if (link_->alarm() && std::exchange(end_.heard, true))
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
