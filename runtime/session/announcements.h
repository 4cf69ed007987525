// These functions tell a person what a run is about to do, and what it has done.
#ifndef RUNTIME_SESSION_ANNOUNCEMENTS_H_
#define RUNTIME_SESSION_ANNOUNCEMENTS_H_

#include <cstdint>
#include <string>

#include "runtime/session/session.h"
#include "runtime/train/reporter.h"
#include "runtime/train/run/loop.h"

namespace runtime::session {

// Says what is trained, on what and with which data, what is unusual about it, and in which folder.
void announce_begin(const Session& session, train::Reporter& reporter);

// Says what was done, where the weights are and which command comes next: it uses the file `best`,
// the average if there is one. `max_steps`: see Training. Only rank 0 calls it.
void announce_end(const Session& session, const train::RunResult& result, const std::string& file,
                  const std::string& best, int64_t max_steps, train::Reporter& reporter);

}  // namespace runtime::session

#endif  // RUNTIME_SESSION_ANNOUNCEMENTS_H_
