// How long a rank waits, and what it says when its job cannot go on.
#ifndef RUNTIME_WATCH_WATCHDOG_OPTIONS_H_
#define RUNTIME_WATCH_WATCHDOG_OPTIONS_H_

#include <chrono>
#include <filesystem>
#include <functional>

#include "runtime/error.h"
#include "runtime/watch/flight_recorder.h"
#include "runtime/watch/rank_names.h"

namespace runtime::watch {

// A rank says this much once another one has found out why the job cannot go on.
enum class Told {
  kAll,      // all that the other one says: their outputs are one
  kBriefly,  // the cause, and who says more: their outputs may be in different places
  kNothing   // it throws ToldError: their outputs come together
};

struct WatchdogOptions {
  std::chrono::nanoseconds timeout;  // comm.timeout_s: for a collective, from its start
  // comm.hang_s: ranks that have waited so long say for whom; 0: they never do
  std::chrono::nanoseconds hang = std::chrono::nanoseconds(0);
  // The folder with the recorders of this machine's ranks; "": only this rank's is known.
  std::filesystem::path job_folder = {};
  // Where rank-<k>-collectives.txt is written when something goes wrong; "": to stderr.
  std::filesystem::path run_folder = {};
  RankNames names = RankNames();  // for messages
  Groups groups = {};  // the communicators by the numbers that FlightRecorder::begin() is given
  Told told = Told::kAll;
  // A number that grows when this rank is to write its last collectives into run_folder, while the
  // job goes on. Any thread; may be null.
  std::function<int()> questions = nullptr;
};

}  // namespace runtime::watch

#endif  // RUNTIME_WATCH_WATCHDOG_OPTIONS_H_
