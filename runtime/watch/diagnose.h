// Finds the rank that is to blame when a job cannot go on.
#ifndef RUNTIME_WATCH_DIAGNOSE_H_
#define RUNTIME_WATCH_DIAGNOSE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/watch/job_board.h"
#include "runtime/watch/rank_names.h"

namespace runtime::watch {

// A fault that one rank has noticed. All fields are empty if nothing went wrong on this rank and it
// knows only from the JobBoard that the job cannot go on.
struct Incident {
  std::string pending = {};  // e.g. "all_reduce #17 (431080 float32)", "rendezvous"; "": nothing
  double late_after_s = 0;   // the deadline that has passed; 0: none has passed
  std::string error = {};    // the communicator's error text
  int broken = -1;           // the rank whose connection has broken, as that error says; -1: none

  Note::Kind kind() const;
  std::string text() const;  // for this rank's note
};

// The facts that one rank knows about the whole job.
struct Evidence {
  int self = 0;
  int world_size = 1;
  std::vector<Note> notes = {};               // of all ranks that answered, this rank's included
  std::string board_error = {};               // why the board could not be read; "": it could be
  std::map<int, RankRecords> recorders = {};  // of ranks on this machine; may be empty
  Groups groups = {};                         // the communicators of the channels
  // Now, on the monotonic clock.
  int64_t now_ns = 0;
  RankNames names = RankNames();
};

// The text of the error, with a remedy. The first of these causes that applies is named: a rank
// that died (kLost); a rank that left with an error of its own; ranks that do not answer; a rank
// that is cut off from most others; ranks that answer but have not started the collective that the
// others wait for; otherwise the network.
std::string diagnose(const Incident& incident, const Evidence& evidence);

}  // namespace runtime::watch

#endif  // RUNTIME_WATCH_DIAGNOSE_H_
