// Where ranks tell each other why they leave, so that all of them report the same cause.
#ifndef RUNTIME_WATCH_JOB_BOARD_H_
#define RUNTIME_WATCH_JOB_BOARD_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/watch/bell.h"
#include "runtime/watch/flight_recorder.h"

namespace runtime::watch {

// The reason why a rank leaves; each rank posts at most one.
struct Note {
  enum class Kind : int {
    kDone = 0,      // its work is done
    kOwnError = 1,  // an error of its own; `text` is the message
    kLost = 2,      // posted by the launcher for a rank that died without a note; `text` says how
    kFailed = 3,    // its communicator failed; `text` says in which call and how
    kLate = 4,      // a deadline has passed; `text` says in what
    kTold = 5,      // it leaves because others have left
  };
  int rank = 0;
  Kind kind = Kind::kDone;
  std::string text = {};
  std::vector<ChannelState> channels = {};  // how far it is, see FlightRecorder::channels()
  int exit_code = 4;  // of the process if kind is kOwnError, see runtime/error.h
  int silent = -1;    // a rank that does not answer this one over their connection; -1: none
  int broken = -1;    // a rank whose connection has broken without a farewell; -1: none
};

// Why the job cannot go on, as one rank has found out for all.
struct Verdict {
  int rank = 0;                // that has found it out, and says all of it
  int exit_code = 4;           // of the ranks that leave because of it
  std::vector<int> lost = {};  // the ranks that do not answer, or have died
  std::string text = {};
};

// Functions may throw, and may block for as long as the store behind them needs to find that it
// cannot be reached, so the watchdog calls them from a thread on which nothing else depends. Any
// thread.
class JobBoard {
 public:
  virtual ~JobBoard() = default;
  // The number of ranks that may post.
  virtual int world_size() const = 0;
  // Publishes this rank's note.
  virtual void post(const Note& note) = 0;
  // Whether any rank has posted a note other than kDone.
  virtual bool alarm() = 0;
  // Rings once alarm() is true. Each rank has one for as long as the job runs, so waiting for it
  // must cost next to nothing.
  virtual std::unique_ptr<Bell> alarm_bell() = 0;
  // Publishes what all ranks are to say. A later verdict replaces an earlier one.
  virtual void post(const Verdict& verdict) = 0;
  virtual std::optional<Verdict> verdict() = 0;
  virtual std::unique_ptr<Bell> verdict_bell() = 0;  // rings once there is one
  // Tells ranks on other machines what only those on this one know. Called until there is a
  // verdict.
  virtual void relay() {}
  // The board on which the ranks say for whom they wait, for the first time (0), the second ...; on
  // it only those who wait raise the alarm. It also has the notes of ranks that are done, from this
  // one, which it must not outlive.
  virtual std::unique_ptr<JobBoard> inquiry(int number) = 0;
  // A call may read the notes of some of many ranks; the next calls then read the others.
  virtual std::vector<Note> notes() = 0;  // of the ranks that have posted one, by rank
};

}  // namespace runtime::watch

#endif  // RUNTIME_WATCH_JOB_BOARD_H_
