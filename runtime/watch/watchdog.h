// Lets no rank hang whose job cannot go on: the rank ends with exit code 4 and an error message
// that names the lost rank.
//
// Each rank of a job has one watchdog. The variables that hold the communicators are declared
// between the watchdog and the call of run(), and the communicators are created inside run(). So
// they are destroyed after run() has told the other ranks why this rank leaves, and while the
// watchdog still watches this rank.
//   watchdog.run([&] { ... the rank's whole work, rendezvous included ... });
// Inside run(), for each collective:
//   const uint64_t sequence = recorder.begin(collective);
//   work = communicator->enqueue(collective);   // an Error: watchdog.fail(error)
//   recorder.running(sequence);
//   recorder.waiting(sequence);
//   for (;;)                                    // work.wait for at most Watchdog::kSlice each time
//     { done -> break; timeout -> watchdog.check(); other Error -> watchdog.fail(error) }
//   recorder.end(sequence);
#ifndef RUNTIME_WATCH_WATCHDOG_H_
#define RUNTIME_WATCH_WATCHDOG_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "plugins/host/error.h"
#include "runtime/error.h"
#include "runtime/watch/diagnose.h"
#include "runtime/watch/flight_recorder.h"
#include "runtime/watch/job_board.h"
#include "runtime/watch/watchdog_options.h"

namespace runtime::watch {

class BoardLink;
class Inquiry;

class Watchdog {
 public:
  // A waiting rank calls check(), and the watchdog polls, at least every kSlice. With the time
  // for the answers of others (ask_pace.h), a few ranks name the lost one well within one second
  // after the fault.
  static constexpr std::chrono::milliseconds kSlice{50};
  // The time that the rank's thread has to unwind its stack after the cause is known. The watchdog
  // then ends the process itself, still within one second after the fault: with exit code 4, or
  // with the exit code of the rank that had an error of its own.
  static constexpr std::chrono::milliseconds kGrace{500};
  // The same time after an error of this rank itself. It is longer, because the other ranks get the
  // error from this rank's note and do not wait for its process to end.
  static constexpr std::chrono::milliseconds kOwnErrorGrace{5000};

  // Recorder and board must outlive it. Starts a thread.
  Watchdog(FlightRecorder& recorder, JobBoard& board, WatchdogOptions options);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Runs the rank's work and tells the other ranks how it ended. Errors of communicators become the
  // CommunicationError of fail(); all other errors are posted and rethrown.
  void run(const std::function<void()>& work);
  // Tells the other ranks that this rank ends with `error`. Call it in a thread beside run() before
  // the other ranks can notice the error in another way, such as an aborted communicator; otherwise
  // they take that for the cause. Any thread.
  void tell(const std::exception& error);

  // The watchdog's thread calls `look` every kSlice, so that it can report completed collectives to
  // the recorder. A plugins::host::Error of it counts as one of a communicator. When attend({})
  // returns, the former `look` is not running any more.
  void attend(std::function<void()> look);

  // Throws CommunicationError once this rank cannot go on. One atomic load.
  void check() const {
    if (!failed_.load(std::memory_order_acquire)) return;
    if (end_.told) throw ToldError(end_.message);
    throw CommunicationError(end_.message);
  }
  // For a communicator's `error`: finds the cause, which takes up to longest_wait() of
  // ask_pace.h, and throws CommunicationError. `broken` is the rank whose connection has broken, as
  // the error says.
  [[noreturn]] void fail(const std::string& error, int broken = -1);
  [[noreturn]] void fail(const plugins::host::Error& error);

  // `rank` does not answer in the collective that the rank's thread waits for; -1: all answer.
  void suspect(int rank) { silent_ = rank; }

  // As FlightRecorder::at_step().
  void at_step(int64_t step, std::shared_ptr<const Plan> plan = nullptr);

  const WatchdogOptions& options() const { return options_; }

  // A deadline of its own for work other than collectives: rendezvous, split, shutdown. Not nested;
  // used by the rank's thread. `what` must outlive it.
  class Phase {
   public:
    Phase(Watchdog& watchdog, const char* what, std::chrono::nanoseconds timeout);
    ~Phase();
    Phase(const Phase&) = delete;
    Phase& operator=(const Phase&) = delete;

   private:
    Watchdog& watchdog_;
  };

  // While it lives, the watchdog does not end the process, whatever happens to other ranks, because
  // this rank saves data that would be lost. Not nested; used by the rank's thread.
  class Shelter {
   public:
    explicit Shelter(Watchdog& watchdog) : watchdog_(watchdog) { watchdog_.sheltered_ = true; }
    ~Shelter() { watchdog_.leave_shelter(); }
    Shelter(const Shelter&) = delete;
    Shelter& operator=(const Shelter&) = delete;

   private:
    Watchdog& watchdog_;
  };
  // The sheltered work has taken too long: tells the other ranks that this rank ends with `error`
  // (exit code 5), and ends the process if it does not end by itself. Any thread.
  void give_up(const std::string& error);

 private:
  Incident pending() const;
  std::optional<Incident> late() const;
  std::optional<Incident> look();
  void conclude(const Incident& incident);
  void leave(const std::string& text, ExitCode code);
  void say_what_was_found(const std::string& instead);
  std::optional<Incident> waits(std::chrono::nanoseconds at_least) const;
  Verdict find_out(const Incident& incident);
  Verdict ask(BoardLink& link, const Incident& incident) const;
  void warn(const std::string& text) const;
  Verdict judge(const Incident& incident, Evidence& evidence) const;
  std::chrono::milliseconds patience_for(const Evidence& evidence) const;
  std::string in_brief(const Verdict& verdict) const;
  std::map<int, RankRecords> recorders_of(const std::vector<int>& ranks) const;
  std::string write_dumps(const Verdict& verdict) const;
  void leave_shelter();
  void end_at(std::chrono::milliseconds grace, const std::string& words, ExitCode code);
  void answer_questions();
  void look_around();
  void watch();

  FlightRecorder& recorder_;
  const WatchdogOptions options_;
  const int world_size_;
  std::atomic<bool> failed_ = false;  // set once, after end_
  struct {
    std::string message;
    bool told = false;   // another rank says it
    bool said = false;   // guarded by concluding_
    bool heard = false;  // the alarm, by the watchdog's thread
  } end_;
  std::mutex concluding_;
  // The work is done; the cause of the end is known. Guarded by concluding_.
  bool done_ = false, over_ = false;
  std::atomic<bool> sheltered_ = false;
  std::atomic<int> silent_ = -1;  // see suspect()
  int answered_ = 0;              // of WatchdogOptions::questions; by the watchdog's thread
  struct {
    std::atomic<const char*> what = nullptr;
    std::atomic<int64_t> start_ns = 0, timeout_ns = 0;
  } phase_;
  struct {
    std::mutex mutex;            // guards `look`
    std::function<void()> look;  // see attend()
  } attended_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable wake_;
  bool stop_ = false;
  int64_t end_ns_ = 0;  // when to end the process; 0: never
  std::string last_words_;
  ExitCode exit_code_ = ExitCode::kCommunication;
  std::unique_ptr<BoardLink> link_;
  std::unique_ptr<Inquiry> inquiry_;  // null if there are none
  std::thread thread_;
};

}  // namespace runtime::watch

#endif  // RUNTIME_WATCH_WATCHDOG_H_
