// The file in which a rank leaves its last collectives, for programs.
#ifndef RUNTIME_WATCH_COLLECTIVES_FILE_H_
#define RUNTIME_WATCH_COLLECTIVES_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/watch/flight_recorder.h"

namespace runtime::watch {

// A file says this. Times are nanoseconds since 1970 by the clock of the rank's machine, not of its
// monotonic clock.
struct CollectivesFile {
  static constexpr int kVersion = 1;
  int rank = 0;
  int world_size = 1;
  std::string host = {};   // "": not known
  int64_t written_ns = 0;  // when the file was written
  bool lost = false;       // another rank has written it for this one
  struct Communicator {
    std::string name;        // "the data axis"
    std::vector<int> ranks;  // of the job, in their order there
  };
  std::vector<Communicator> communicators = {};  // by their numbers in the records
  int64_t step = 0;  // that the rank has begun last, and its plan; empty: not known
  Plan plan = {};
  std::vector<CollectiveRecord> records = {};  // by sequence number
};

// The records of `records`, whose times are of the monotonic clock of this machine, as a file that
// is written now.
CollectivesFile file_of(const RankRecords& records, const Groups& groups, int world_size);

// One object of JSON, with a line for each collective.
std::string to_json(const CollectivesFile& file);

}  // namespace runtime::watch

#endif  // RUNTIME_WATCH_COLLECTIVES_FILE_H_
