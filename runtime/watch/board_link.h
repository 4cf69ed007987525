// The thread through which a watchdog and the board of its job talk.
#ifndef RUNTIME_WATCH_BOARD_LINK_H_
#define RUNTIME_WATCH_BOARD_LINK_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "plugins/host/descriptor.h"
#include "runtime/watch/bell.h"
#include "runtime/watch/diagnose.h"
#include "runtime/watch/job_board.h"

namespace runtime::watch {

// Talks to the board in a thread of its own, because a store behind a dead link may block for long.
class BoardLink {
 public:
  // The board must outlive it.
  explicit BoardLink(JobBoard& board);
  ~BoardLink() { stop(); }
  BoardLink(const BoardLink&) = delete;
  BoardLink& operator=(const BoardLink&) = delete;

  // When this returns, the last note and the verdict have been posted, if the board can be reached.
  void stop();
  void post(Note note);
  void give_up();  // ends gather() and agree()
  bool alarm() const { return alarm_.load(std::memory_order_acquire); }

  // Posts this rank's note. Returns the verdict of another rank once there is one. Returns nothing
  // if this rank has to find the cause: `evidence` then has the notes of all ranks that answer.
  // Most ranks only wait for a verdict; those that ask (ask_pace.h) collect notes until all or a
  // cause are known, or time is up.
  std::optional<Verdict> gather(Note own, Evidence& evidence);
  // Posts this rank's verdict and returns it, or that of another rank if one comes within
  // `patience`.
  Verdict agree(Verdict own, std::chrono::milliseconds patience);

 private:
  enum class Task { kListen, kAwaitVerdict, kAskAll };
  struct Outbox {
    std::optional<Note> note = {};
    std::optional<Verdict> verdict = {};
    bool empty() const { return !note && !verdict; }
  };

  struct Known {
    std::vector<Note> notes = {};
    std::optional<Verdict> verdict = {};
    std::string error = {};  // of the last exchange with the board
    bool given_up = false;
    bool grows = false;  // the last look has found new notes
    bool is_over() const { return verdict.has_value() || !error.empty() || given_up; }
  };

  bool knows_enough() const;
  void await_verdict(std::unique_lock<std::mutex>& lock);
  void ask_all(std::unique_lock<std::mutex>& lock);
  void set_task(Task task);
  void wake() const;
  void run();
  bool goes_on() const { return !stop_ || (!outbox_.empty() && known_.error.empty()); }
  void listen();
  void exchange(Outbox outbox, Task task);
  std::optional<Verdict> look_for_verdict();
  void wait(const Bell* bell, std::chrono::milliseconds at_most) const;

  JobBoard& board_;
  const plugins::host::Descriptor wake_;
  std::atomic<bool> alarm_ = false;
  struct {
    std::unique_ptr<Bell> alarm, verdict;
  } bells_;           // of the thread
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  Outbox outbox_;
  Task task_ = Task::kListen;
  bool stop_ = false;
  Known known_;
  std::thread thread_;
};

}  // namespace runtime::watch

#endif  // RUNTIME_WATCH_BOARD_LINK_H_
