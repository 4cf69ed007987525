// Waits for bells, and does what the watchdog asks for.
#include "runtime/watch/board_link.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>

#include "runtime/error.h"
#include "runtime/watch/ask_pace.h"

namespace runtime::watch {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// An alarm that rings is heard at once. It is looked for this often, in case it could not ring.
constexpr milliseconds kLook{1000};
// A note that could not be posted is posted again after this.
constexpr milliseconds kAgain{50};

plugins::host::Descriptor event() {
  plugins::host::Descriptor descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (descriptor) return descriptor;
  throw CommunicationError(std::string("cannot watch over the ranks: eventfd: ") +
                           std::strerror(errno) + "; raise the limit of open files (ulimit -n)");
}

}  // namespace

BoardLink::BoardLink(JobBoard& board) : board_(board), wake_(event()), thread_([this] { run(); }) {}

void BoardLink::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake();
  if (thread_.joinable()) thread_.join();
}

void BoardLink::post(Note note) {
  const std::lock_guard lock(mutex_);
  outbox_.note = std::move(note);
  wake();
}

void BoardLink::give_up() {
  const std::lock_guard lock(mutex_);
  known_.given_up = true;
  changed_.notify_all();
}

std::optional<Verdict> BoardLink::gather(Note own, Evidence& evidence) {
  std::unique_lock lock(mutex_);
  outbox_.note = own;
  await_verdict(lock);
  if (!known_.verdict) ask_all(lock);
  if (known_.verdict) return known_.verdict;
  evidence.notes = known_.notes;
  if (std::erase_if(evidence.notes, [&](const Note& n) { return n.rank == own.rank; }) == 0)
    evidence.board_error =
        known_.error.empty() ? "the store of the job did not answer" : known_.error;
  evidence.notes.push_back(std::move(own));
  return std::nullopt;
}

Verdict BoardLink::agree(Verdict own, milliseconds patience) {
  std::unique_lock lock(mutex_);
  const auto is_over = [this] { return known_.is_over(); };
  if (!known_.verdict) set_task(Task::kAwaitVerdict);
  changed_.wait_for(lock, patience, is_over);
  if (known_.verdict) return *known_.verdict;
  if (known_.given_up) return own;
  outbox_.verdict = own;
  wake();
  changed_.wait_for(lock, kAgain, is_over);
  return known_.verdict.value_or(std::move(own));
}

// Whether all ranks have answered, or the cause is known.
bool BoardLink::knows_enough() const {
  return static_cast<int>(known_.notes.size()) == board_.world_size() ||
         std::ranges::any_of(known_.notes, [](const Note& n) {
           return n.kind == Note::Kind::kOwnError || n.kind == Note::Kind::kLost;
         });
}

void BoardLink::set_task(Task task) {
  task_ = task;
  wake();
}

// Returns early if the board cannot be reached, because no verdict will be seen then.
void BoardLink::await_verdict(std::unique_lock<std::mutex>& lock) {
  set_task(Task::kAwaitVerdict);
  const int rank = outbox_.note->rank;
  changed_.wait_for(lock, verdict_time(rank, board_.world_size()),
                    [this] { return known_.is_over(); });
}

void BoardLink::ask_all(std::unique_lock<std::mutex>& lock) {
  set_task(Task::kAskAll);
  AskPace pace(board_.world_size(), steady_clock::now());
  while (!known_.verdict && !known_.given_up && !knows_enough() &&
         steady_clock::now() < pace.ends()) {
    changed_.wait_until(lock, pace.ends());
    pace.heard(known_.notes.size(), steady_clock::now());
  }
}

void BoardLink::wake() const { ::eventfd_write(wake_.get(), 1); }

void BoardLink::run() {
  std::unique_lock lock(mutex_);
  AskIntervals intervals(board_.world_size());
  do {
    Outbox outbox = std::exchange(outbox_, {});
    const Task task = task_;
    lock.unlock();
    listen();
    exchange(std::move(outbox), task);
    lock.lock();
    if (stop_ || (!outbox_.empty() && known_.error.empty())) continue;
    const bool listens = task_ == Task::kListen;
    const milliseconds pause = listens        ? known_.error.empty() ? kLook : kAgain
                               : known_.grows ? milliseconds(0)
                                              : intervals.next();
    lock.unlock();
    wait(listens ? alarm() ? nullptr : bells_.alarm.get() : bells_.verdict.get(), pause);
    lock.lock();
  } while (goes_on());
}

// Waits until wake() is called, or the bell, which may be null, may ring.
void BoardLink::wait(const Bell* bell, milliseconds at_most) const {
  try {
    std::vector<pollfd> polled = {{wake_.get(), POLLIN, 0}};
    if (bell != nullptr)
      for (const int descriptor : bell->descriptors()) polled.push_back({descriptor, POLLIN, 0});
    ::poll(polled.data(), polled.size(), static_cast<int>(at_most.count()));
  } catch (const std::bad_alloc&) {
    pollfd only{wake_.get(), POLLIN, 0};
    ::poll(&only, 1, static_cast<int>(kAgain.count()));
  }
  eventfd_t ignored = 0;
  ::eventfd_read(wake_.get(), &ignored);
}

void BoardLink::listen() {
  if (alarm()) return;
  try {
    if (bells_.alarm == nullptr) bells_.alarm = board_.alarm_bell();
    if (!bells_.alarm->rings()) return;
  } catch (const std::exception&) {
    bells_.alarm = nullptr;  // it is asked for again after a pause
    return;
  }
  alarm_.store(true, std::memory_order_release);
}

std::optional<Verdict> BoardLink::look_for_verdict() {
  if (bells_.verdict == nullptr) bells_.verdict = board_.verdict_bell();
  if (!bells_.verdict->rings()) return std::nullopt;
  return board_.verdict();
}

void BoardLink::exchange(Outbox outbox, Task task) {
  if (outbox.empty() && task == Task::kListen) return;
  std::string error;
  std::vector<Note> notes;
  std::optional<Verdict> verdict;
  try {
    if (outbox.note) board_.post(*outbox.note);
    if (task != Task::kListen) verdict = look_for_verdict();
    if (!verdict && outbox.verdict && task != Task::kListen)
      board_.post(*outbox.verdict), verdict = outbox.verdict;
    if (!verdict && task == Task::kAwaitVerdict) board_.relay();
    if (!verdict && task == Task::kAskAll) notes = board_.notes();
  } catch (const std::exception& e) {
    error = e.what();
  }
  const std::lock_guard lock(mutex_);
  if (!error.empty()) {  // post it again later
    if (!outbox_.note) outbox_.note = std::move(outbox.note);
    if (!outbox_.verdict) outbox_.verdict = std::move(outbox.verdict);
  }
  known_.grows = notes.size() > known_.notes.size();
  if (!notes.empty()) known_.notes = std::move(notes);
  if (!known_.verdict) known_.verdict = std::move(verdict);
  if (known_.verdict) {
    task_ = Task::kListen;
    outbox_.verdict.reset();
  }
  known_.error = std::move(error);
  changed_.notify_all();
}

}  // namespace runtime::watch
