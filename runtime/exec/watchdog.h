// Ends a rank whose job cannot go on: with exit 4 and the name of the lost rank, never by a hang.
//
// One per rank, where there are several. Communicators are declared after it and before run(),
// which makes them: they end after the others know why this rank leaves, and while it is still
// watched.
//   watchdog.run([&] { ... the rank's whole work, rendezvous included ... });
// In it, for each collective:
//   const uint64_t sequence = recorder.begin(collective);
//   work = communicator->enqueue(collective);   // an Error: watchdog.fail(error.what())
//   recorder.running(sequence);
//   recorder.waiting(sequence);
//   for (;;)                                    // work.wait in slices of Watchdog::kSlice
//     { done -> break; timeout -> watchdog.check(); other Error -> watchdog.fail(error.what()) }
//   recorder.end(sequence);
#ifndef RUNTIME_EXEC_WATCHDOG_H_
#define RUNTIME_EXEC_WATCHDOG_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "runtime/error.h"
#include "runtime/exec/diagnose.h"
#include "runtime/exec/flight_recorder.h"
#include "runtime/exec/job_board.h"

namespace runtime::exec {

struct WatchdogOptions {
  std::chrono::nanoseconds timeout;  // comm.timeout_s: of a collective, from its start
  // Of the recorders of this machine's ranks; "": only this rank's is known.
  std::filesystem::path job_folder = {};
  // Gets rank-<k>-collectives.txt when something goes wrong; "": they go to stderr.
  std::filesystem::path run_folder = {};
};

class BoardLink;

class Watchdog {
 public:
  // How long a waiting rank goes without looking at check(), and how often the watchdog looks. With
  // the 300 ms for the answers of the others it is well inside the second for naming a rank.
  static constexpr std::chrono::milliseconds kSlice{50};
  // After that the process is ended from here: time to unwind, and the second is kept. With exit 4,
  // or with the code of the rank whose own error it was.
  static constexpr std::chrono::milliseconds kGrace{500};
  // After an error of the rank's own nobody waits for it.
  static constexpr std::chrono::milliseconds kOwnErrorGrace{5000};

  // Recorder and board must outlive it.
  Watchdog(FlightRecorder& recorder, JobBoard& board, WatchdogOptions options);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Runs the rank's work and tells the others how it ended. Errors of communicators become the
  // CommunicationError of fail(); all others are posted and rethrown.
  void run(const std::function<void()>& work);

  // The watchdog's thread calls `look` every slice, so that it tells the recorder what has
  // completed unseen. A plugins::host::Error of it is one of a communicator. Empty: it does not run
  // any more.
  void attend(std::function<void()> look);

  // Throws CommunicationError once this rank cannot go on. One atomic load.
  void check() const {
    if (failed_.load(std::memory_order_acquire)) throw CommunicationError(message_);
  }
  // A communicator reported `error`: finds the cause (up to 600 ms) and throws CommunicationError.
  [[noreturn]] void fail(const std::string& error);

  // `rank` does not answer in the collective that the rank's thread waits for; -1: all do.
  void suspect(int rank) { silent_ = rank; }

  // A deadline of its own for what is not a collective: rendezvous, split, shutdown. Not nested; by
  // the rank's thread. `what` must outlive it.
  class Phase {
   public:
    Phase(Watchdog& watchdog, const char* what, std::chrono::nanoseconds timeout);
    ~Phase();
    Phase(const Phase&) = delete;
    Phase& operator=(const Phase&) = delete;

   private:
    Watchdog& watchdog_;
  };

  // While it lives the process is not ended from here, whatever becomes of the other ranks: this
  // rank saves what would be lost. Not nested; by the rank's thread.
  class Shelter {
   public:
    explicit Shelter(Watchdog& watchdog) : watchdog_(watchdog) { watchdog_.sheltered_ = true; }
    ~Shelter() { watchdog_.leave_shelter(); }
    Shelter(const Shelter&) = delete;
    Shelter& operator=(const Shelter&) = delete;

   private:
    Watchdog& watchdog_;
  };
  // What the shelter is for has taken too long: tells the others that this rank ends with `error`
  // (exit 5), and ends the process where it does not end by itself. Any thread.
  void give_up(const std::string& error);

 private:
  Incident pending() const;
  std::optional<Incident> late() const;
  std::optional<Incident> look();
  void conclude(const Incident& incident);
  void leave(const std::string& text, ExitCode code);
  std::string explain(const Incident& incident, Evidence& evidence) const;
  std::string write_dumps(const Evidence& evidence) const;
  void leave_shelter();
  void end_at(std::chrono::milliseconds grace, const std::string& message, ExitCode code);
  void look_around();
  void watch();

  FlightRecorder& recorder_;
  const WatchdogOptions options_;
  const int world_size_;
  std::atomic<bool> failed_ = false;  // set once, after message_
  std::string message_;
  std::mutex concluding_;
  bool done_ = false;  // its work is; guarded by concluding_
  bool over_ = false;  // why it ends is known; guarded by concluding_
  std::atomic<bool> sheltered_ = false;
  std::atomic<int> silent_ = -1;  // see suspect()
  std::atomic<const char*> phase_ = nullptr;
  std::atomic<int64_t> phase_start_ns_ = 0, phase_timeout_ns_ = 0;
  std::mutex looking_;
  std::function<void()> look_;  // guarded by looking_
  std::mutex mutex_;            // of the rest
  std::condition_variable wake_;
  bool stop_ = false;
  int64_t end_ns_ = 0;  // when to end the process; 0: not
  std::string last_words_;
  ExitCode exit_code_ = ExitCode::kCommunication;
  std::unique_ptr<BoardLink> link_;
  std::thread thread_;
};

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_WATCHDOG_H_
