// Who is to blame when a job cannot go on.
#ifndef RUNTIME_EXEC_DIAGNOSE_H_
#define RUNTIME_EXEC_DIAGNOSE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/exec/job_board.h"

namespace runtime::exec {

// What one rank saw go wrong. All empty: it was told by the board.
struct Incident {
  std::string pending = {};  // "all_reduce #17 (431080 float32)", "rendezvous"; "": nothing
  uint64_t sequence = 0;     // of the pending collective; 0: none, or not a collective
  double late_after_s = 0;   // the deadline that has passed; 0: none has
  std::string error = {};    // the communicator's words

  Note::Kind kind() const;
  std::string text() const;  // for the note
};

struct Evidence {
  int self = 0;
  int world_size = 1;
  std::vector<Note> notes = {};               // of all ranks that answered, this one's among them
  std::string board_error = {};               // why the board could not be read; "": it could
  std::map<int, RankRecords> recorders = {};  // of this machine's ranks; may be empty
  int64_t now_ns = 0;
};

// The message of the error, with a remedy. In this order: a rank that died (kLost); a rank that
// left by its own error; ranks that do not answer; a rank that is cut off from most others; ranks
// that answer but have not begun, or will not begin, what the others wait for; none of them, then
// the network.
std::string diagnose(const Incident& incident, const Evidence& evidence);

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_DIAGNOSE_H_
